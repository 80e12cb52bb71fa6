"""The draft head against a reference that is written plainly: float64, no cache, one slot and one head at a time."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from forward_serve.decoding.dflash import DFlashHead, DFlashPack, open_pack
from forward_serve.decoding.dflash.conv import through
from forward_serve.decoding.dflash.pick import ArgmaxPick
from forward_serve.decoding.dflash.trunk import DraftTrunk, visible_keys
from forward_serve.decoding.interfaces import Rows
from forward_serve.decoding.loop import Options, run
from forward_serve.decoding.scripted import ScriptedBase, saying
from forward_serve.decoding.silence import Silence
from forward_serve.errors import Refusal

Array = NDArray[np.float64]

SLIDING = {"layer_types": ["sliding_attention"] * 2}
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "sliding-causal": {**SLIDING, "sliding_window": 7},
    "sliding-both-ways": {**SLIDING, "sliding_window": 9, "is_causal": False},
    "window-under-the-block": {**SLIDING, "sliding_window": 4, "is_causal": False},
    "sliding-then-full": {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 7},
    "full-causal": {"is_causal": True},
    "scaled-and-capped": {
        "dflash_config.output_multiplier": 0.5,
        "dflash_config.final_logit_softcapping": 3.0,
        "dflash_config.input_embedding_scale": 2.0,
    },
    "one-kv-head-and-five-layers": {"num_key_value_heads": 1, "num_hidden_layers": 5, "head_dim": 10},
    "one-tap-and-block-of-two": {"dflash_config.target_layer_ids": [2], "block_size": 2, "rope_theta": 1e6},
}
ACCEPTED = [2, 0, 5, 1, 4, 0, 3, 5, 5, 2]  # of each round
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]  # longer than the windows
BOUND = 28  # of 32 rows; the mask is a padded one


class Sink:
    """Tap rows that are a function of token and position."""

    def __init__(self, width: int) -> None:
        self._stored: list[NDArray[np.float32]] = []
        self._width = width

    def __len__(self) -> int:
        return len(self._stored)

    def clear(self) -> None:
        self._stored.clear()

    def truncate(self, num_rows: int) -> None:
        del self._stored[num_rows:]

    def append(self, token: int) -> None:
        rng = np.random.default_rng([token, len(self._stored)])
        self._stored.append(rng.standard_normal(self._width).astype(np.float32))

    def rows(self, start: int, stop: int) -> Rows:
        assert 0 <= start < stop <= len(self), f"rows {start} to {stop} of {len(self)}"
        return np.array(self._stored[start:stop])


class Target:
    """The part of a target that a draft head uses; its padded head rows are three times as long as the others."""

    def __init__(self, config: dict[str, Any]) -> None:
        rng = np.random.default_rng(11)
        shape = (config["vocab_size"], config["hidden_size"])
        self.config = SimpleNamespace(hidden_size=shape[1], vocab_size=shape[0], num_hidden_layers=5)
        self.vocab_bound = BOUND
        self.table = rng.standard_normal(shape).astype(np.float32)
        self.lm_head = rng.standard_normal(shape).astype(np.float32)
        self.lm_head[BOUND:] *= 3
        self.embedded: list[list[int]] = []

    def embed(self, ids: Sequence[int]) -> Rows:
        self.embedded.append(list(ids))
        return self.table[list(ids)]

    def head(self, hidden: Rows) -> Rows:
        return hidden @ self.lm_head.T


class TappedBase(ScriptedBase):
    """A scripted base that writes a tap row for each row of each pass."""

    def __init__(self, prompt: list[int], reply: list[int], sink: Sink) -> None:
        super().__init__(saying(prompt, reply, 0), BOUND)
        self._sink = sink

    def forward(self, ids: Sequence[int]) -> Rows:
        for token in ids:
            self._sink.append(token)
        return super().forward(ids)

    def truncate(self, num_positions: int) -> None:
        self._sink.truncate(max(0, len(self._sink) - (self.num_positions - num_positions)))
        super().truncate(num_positions)


# The reference -----------------------------------------------------------------------------------------------------------


def rms(x: Array, weight: Array) -> Array:
    return np.array([row / np.sqrt((row**2).mean() + 1e-6) * weight for row in x])


def rope(row: Array, position: int, theta: float) -> Array:
    half = len(row) // 2
    pairs = row[:half] + 1j * row[half:]
    pairs = pairs * np.exp(1j * position * theta ** (-2 * np.arange(half) / len(row)))
    return np.concatenate([pairs.real, pairs.imag])


def sees(query: int, key: int, kind: str, config: dict[str, Any]) -> bool:
    is_causal = config.get("is_causal")
    causal = kind == "sliding_attention" if is_causal is None else is_causal
    window = config["sliding_window"] if kind == "sliding_attention" else None
    if causal and key > query:
        return False
    return window is None or (query - key < window and (causal or key - query < window))


def reference_hidden(config: dict[str, Any], weights: dict[str, Array], taps: Array, block: Array) -> Array:
    """Hidden rows of one block behind `taps`, from nothing but the formulas."""
    start, head_dim, theta = len(taps), config["head_dim"], config["rope_theta"]
    group = config["num_attention_heads"] // config["num_key_value_heads"]
    context = rms(taps @ weights["fc.weight"].T, weights["hidden_norm.weight"])
    x = block * config["dflash_config"].get("input_embedding_scale", 1.0)
    for layer in range(config["num_hidden_layers"]):
        w = {name.split(f"layers.{layer}.")[1]: value for name, value in weights.items() if f"layers.{layer}." in name}
        kind = config.get("layer_types", ["full_attention"] * config["num_hidden_layers"])[layer]
        h = rms(x, w["input_layernorm.weight"])
        source = np.concatenate([context, h])
        mixed = np.zeros((len(x), config["num_attention_heads"] * head_dim))
        for head in range(config["num_attention_heads"]):
            of_query = slice(head * head_dim, (head + 1) * head_dim)
            of_key = slice(head // group * head_dim, (head // group + 1) * head_dim)
            queries = rms(h @ w["self_attn.q_proj.weight"][of_query].T, w["self_attn.q_norm.weight"])
            keys = rms(source @ w["self_attn.k_proj.weight"][of_key].T, w["self_attn.k_norm.weight"])
            values = source @ w["self_attn.v_proj.weight"][of_key].T
            for slot in range(len(x)):
                seen = [key for key in range(len(source)) if sees(start + slot, key, kind, config)]
                query = rope(queries[slot], start + slot, theta)
                scores = np.array([query @ rope(keys[key], key, theta) for key in seen]) / np.sqrt(head_dim)
                share = np.exp(scores - scores.max())
                mixed[slot, of_query] = share / share.sum() @ values[seen]
        x = x + mixed @ w["self_attn.o_proj.weight"].T
        h = rms(x, w["post_attention_layernorm.weight"])
        gate = h @ w["mlp.gate_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["mlp.up_proj.weight"].T)) @ w["mlp.down_proj.weight"].T
    return rms(x, weights["norm.weight"])


class Reference:
    """The drafter of one pack, from its configuration and tensors."""

    def __init__(self, config: dict[str, Any], tensors: dict[str, Any], target: Target) -> None:
        self.config = config
        self.target = target
        self.weights = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
        self.smallest_gap = np.inf  # between best and second logit, over all drafts

    def hidden(self, taps: Rows, anchor: int) -> Array:
        block_size = self.config["block_size"]
        ids = [anchor] + [self.config["dflash_config"]["mask_token_id"]] * (block_size - 1)
        return reference_hidden(self.config, self.weights, taps.astype(np.float64), self.target.table[ids].astype(np.float64))

    def drafts(self, taps: Rows, anchor: int) -> list[int]:
        logits = self.hidden(taps, anchor)[1:] @ self.target.lm_head.astype(np.float64)[:BOUND].T
        logits *= self.config["dflash_config"].get("output_multiplier", 1.0)
        cap = self.config["dflash_config"].get("final_logit_softcapping")
        logits = cap * np.tanh(logits / cap) if cap else logits
        best = np.sort(logits, axis=1)
        self.smallest_gap = min(self.smallest_gap, (best[:, -1] - best[:, -2]).min())
        return [int(row.argmax()) for row in logits]


@pytest.fixture(params=VARIANTS)
def drafter(request: pytest.FixtureRequest, write_pack: Any) -> tuple[DFlashPack, Reference, Target, Sink]:
    directory, config, tensors = write_pack(VARIANTS[request.param], seed=len(request.param))
    target = Target(config)
    sink = Sink(len(config["dflash_config"]["target_layer_ids"]) * config["hidden_size"])
    return open_pack(directory), Reference(config, tensors, target), target, sink


@pytest.fixture
def plain_pack(write_pack: Any) -> tuple[DFlashPack, Target, Sink]:
    directory, config, _ = write_pack()
    return open_pack(directory), Target(config), Sink(3 * config["hidden_size"])


# Against the reference ---------------------------------------------------------------------------------------------------


def test_hidden_rows_equal_the_reference_over_rounds_with_partial_accepts(
    drafter: tuple[DFlashPack, Reference, Target, Sink],
) -> None:
    pack, reference, target, sink = drafter
    trunk = DraftTrunk(pack)
    context = trunk.new_context()
    rng = np.random.default_rng(5)
    for token in PROMPT:
        sink.append(token)
    for accepted in ACCEPTED:
        anchor = int(rng.integers(BOUND))
        trunk.extend(context, sink.rows(context.num_positions, len(sink)))
        ids = [anchor] + [pack.config.mask_token_id] * (pack.block_size - 1)
        got = trunk.block(context, target.table[ids])
        np.testing.assert_allclose(got, reference.hidden(sink.rows(0, len(sink)), anchor), atol=2e-5)
        assert context.num_positions == len(sink)
        for token in rng.integers(BOUND, size=accepted + 1):
            sink.append(int(token))


def test_every_round_of_a_reply_proposes_what_the_reference_says_whatever_was_accepted_before(
    drafter: tuple[DFlashPack, Reference, Target, Sink],
) -> None:
    pack, reference, target, sink = drafter
    num_drafts = pack.block_size - 1
    stream, want = [*PROMPT, 7], []  # the last one is the next anchor
    for accepted in [min(accepted, num_drafts) for accepted in ACCEPTED]:
        scratch = Sink(reference.weights["fc.weight"].shape[1])
        for token in stream[:-1]:
            scratch.append(token)
        drafts = reference.drafts(scratch.rows(0, len(scratch)), stream[-1])
        wrong = (drafts[accepted] + 1) % BOUND if accepted < num_drafts else 8
        want.append((tuple(drafts), accepted))
        stream += [*drafts[:accepted], wrong]
    assert reference.smallest_gap > 1e-3

    reply = [*stream[len(PROMPT) :], *[9] * num_drafts]
    tokens: list[int] = []

    def deliver(token: int) -> bool:
        tokens.append(token)
        return True

    options = Options(k=num_drafts, max_tokens=len(reply), deliver=deliver)
    stats = run(TappedBase(PROMPT, reply, sink), DFlashHead(pack, target, sink), PROMPT, options)
    assert tokens == reply
    assert stats.per_round[: len(want)] == want
    assert all(len(ids) == pack.block_size for ids in target.embedded)


def test_context_taken_in_one_call_or_in_many_is_the_same(plain_pack: tuple[DFlashPack, Target, Sink]) -> None:
    pack, target, sink = plain_pack
    for position in range(600):  # beyond the first capacity of the store
        sink.append(position % BOUND)
    trunk = DraftTrunk(pack)
    at_once, in_parts = trunk.new_context(), trunk.new_context()
    trunk.extend(at_once, sink.rows(0, 600))
    for start, stop in [(0, 1), (1, 250), (250, 255), (255, 300), (300, 600)]:
        trunk.block(in_parts, target.table[:6])  # what a block leaves behind must not stay
        trunk.extend(in_parts, sink.rows(start, stop))
    block = target.table[[5] + [29] * 5]
    np.testing.assert_allclose(trunk.block(at_once, block), trunk.block(in_parts, block), atol=1e-5)


# The head's contract -----------------------------------------------------------------------------------------------------


def begun(pack: DFlashPack, target: Target, sink: Sink, num_rows: int = len(PROMPT)) -> DFlashHead:
    head = DFlashHead(pack, target, sink)
    head.begin(PROMPT)
    for position in range(num_rows):
        sink.append(PROMPT[position % len(PROMPT)])
    return head


def test_drafts_do_not_depend_on_how_many_are_asked_for(plain_pack: tuple[DFlashPack, Target, Sink]) -> None:
    pack, target, sink = plain_pack
    head = begun(pack, target, sink)
    most = head.propose(7, len(PROMPT), 5, None)
    assert [head.propose(7, len(PROMPT), num, None) for num in (1, 2, 3, 4, 5)] == [most[:num] for num in (1, 2, 3, 4, 5)]
    assert target.embedded == [[7, 29, 29, 29, 29, 29]] * 6
    assert len(most) == 5


@pytest.mark.parametrize("num_rows", [0, len(PROMPT) - 1, len(PROMPT) + 1])
def test_taps_that_do_not_account_for_every_position_are_no_taps_and_cost_nothing(
    plain_pack: tuple[DFlashPack, Target, Sink], num_rows: int
) -> None:
    pack, target, sink = plain_pack
    head = begun(pack, target, sink, num_rows)
    assert (head.propose(7, len(PROMPT), 5, None), head.last_word) == ([], Silence.NO_TAPS)
    assert (head.pays, target.embedded) == (False, [])


def test_position_that_went_back_behind_the_context_is_no_taps(plain_pack: tuple[DFlashPack, Target, Sink]) -> None:
    pack, target, sink = plain_pack
    head = begun(pack, target, sink)
    head.propose(7, len(PROMPT), 5, None)
    sink.truncate(4)
    assert (head.propose(7, 4, 5, None), head.last_word) == ([], Silence.NO_TAPS)


def test_a_proposal_pays_and_has_no_last_word(plain_pack: tuple[DFlashPack, Target, Sink]) -> None:
    pack, target, sink = plain_pack
    head = begun(pack, target, sink)
    head.propose(7, 3, 5, None)
    head.propose(7, len(PROMPT), 5, None)
    assert (head.pays, head.last_word) == (True, "")


def test_beginning_forgets_the_context_and_the_taps_of_whatever_ran_before(
    plain_pack: tuple[DFlashPack, Target, Sink],
) -> None:
    pack, target, sink = plain_pack
    want = begun(pack, target, sink).propose(7, len(PROMPT), 5, None)
    sink.clear()
    for token in (1, 1, 2):  # a warm-up
        sink.append(token)
    head = DFlashHead(pack, target, sink)
    head.propose(9, 3, 5, None)
    head.begin(PROMPT)
    assert len(sink) == 0
    for token in PROMPT:
        sink.append(token)
    assert head.propose(7, len(PROMPT), 5, None) == want


def test_head_refuses_a_target_that_the_pack_was_not_made_for(plain_pack: tuple[DFlashPack, Target, Sink]) -> None:
    pack, target, sink = plain_pack
    target.config.vocab_size = 33
    with pytest.raises(Refusal, match="vocab_size=32 is not the target's 33"):
        DFlashHead(pack, target, sink)


def test_request_without_taps_for_its_first_positions_decodes_with_plain_steps(
    plain_pack: tuple[DFlashPack, Target, Sink],
) -> None:
    pack, target, sink = plain_pack
    reply = [10, 11, 12, 13, 14]

    class ForgetfulHead(DFlashHead):
        def propose(self, t1: int, position: int, max_drafts: int, hidden: Rows | None) -> list[int]:
            return super().propose(t1, position + 2, max_drafts, hidden)

    options = Options(k=5, max_tokens=5, fallback_below=2.0, fallback_window=1)
    stats = run(TappedBase(PROMPT, reply, sink), ForgetfulHead(pack, target, sink), PROMPT, options)
    assert (stats.plain_steps, stats.drafted, stats.silence, stats.fell_back_at) == (5, 0, Silence.NO_TAPS, None)


# Its parts ---------------------------------------------------------------------------------------------------------------


def test_pick_takes_the_lowest_of_equal_ids_below_the_bound() -> None:
    rows = np.array([[1, 5, 5, 9], [7, 7, 7, 7], [0, 1, 2, 3]], np.float32)
    source = SimpleNamespace(vocab_bound=3, head=lambda hidden: hidden)
    assert ArgmaxPick(source)(rows, 0) == [1, 0, 2]


@pytest.mark.parametrize("window", [None, 1, 3, 9])
@pytest.mark.parametrize("causal", [False, True])
def test_visible_keys_follow_the_rule_of_window_and_causality(window: int | None, causal: bool) -> None:
    start, first, stop = 5, 2, 9
    visible = visible_keys(start, first, stop, window, causal)
    want = [
        [(not causal or key <= slot) and (window is None or abs(slot - key) < window) for key in range(first, stop)]
        for slot in range(start, stop)
    ]
    got = np.ones((4, 7), np.bool_) if visible is None else visible
    assert got.tolist() == want


def test_conv_of_a_layer_wraps_its_sublayer() -> None:
    class Scaling:
        """Doubles the input, and adds to the output what it kept."""

        def prepare(self, rows: Rows) -> tuple[Rows, Rows]:
            return rows * 2, rows

        def finish(self, rows: Rows, kept: Rows) -> Rows:
            return rows + kept * 100

    rows = np.array([[1.0, 2.0]], np.float32)
    assert through(Scaling(), rows, lambda x: x + 1).tolist() == [[103.0, 205.0]]
    assert through(None, rows, lambda x: x + 1).tolist() == [[2.0, 3.0]]
