"""What the full tiny recipe promises, read from the files that it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.fabricate.certificate import Certificate
from harness.fabricate.choice import Selector, choose
from harness.fabricate.drafter import DraftInputs, run_draft
from harness.fabricate.numerics import BF16, DEVICE, EXACT, FLOAT32, HARSH, Numerics
from harness.fabricate.pack import read_pack
from harness.fabricate.recipe import PackRecipe, Recipe
from harness.fabricate.shape import EMBEDDING
from harness.fabricate.teacher import Teacher
from harness.fabricate.transformer import forward
from harness.records.files import read_json
from harness.records.fixture import Fixture, bytes_of_ids


@pytest.fixture(scope="module")
def certificate(tiny: Fixture) -> Certificate:
    return read_json(Path(tiny.model) / "certificate.json", Certificate)


def packs(recipe: Recipe) -> dict[str, PackRecipe]:
    return {pack.name: pack for pack in recipe.all_packs}


@pytest.mark.parametrize("numerics", [EXACT, FLOAT32, BF16, HARSH, DEVICE], ids=lambda one: one.name)
def test_the_container_says_every_stream_however_numbers_are_rounded(tiny_teacher: Teacher, numerics: Numerics) -> None:
    scores = tiny_teacher.scores(numerics)
    np.testing.assert_array_equal(scores[..., :256].argmax(axis=-1), tiny_teacher.script.replies)
    assert np.all(scores.argmax(axis=-1) >= 256)  # an argmax without the bound is wrong at every state


def test_the_certificate_holds_the_margins_that_make_zero_tolerance_fair(certificate: Certificate) -> None:
    model = certificate.model
    assert model.states == 264
    assert model.padded_share == 1.0
    assert model.smallest_gap.gap > 1.5
    assert model.movements["float32"].ratio > 1000
    assert model.movements["bf16"].ratio > 2
    assert model.movements["bf16 device"].ratio > 2
    assert sum(count >= 12 for count in model.distinct_tokens.values()) >= 8


@pytest.mark.parametrize("name", ["mixed", "always", "never", "mixed2", "flip2", "window1", "twin2"])
def test_each_pack_is_certified_for_every_slot_in_float32(certificate: Certificate, name: str) -> None:
    pack = certificate.packs[name]
    assert pack.movements["float32"].ratio > 1000
    assert pack.movements["bf16"].ratio > 2
    assert pack.movements["bf16 device"].ratio > 2
    assert pack.any_slot_float32_ratio > 100
    assert pack.padded_share > 0.99


def test_mixed_covers_every_length_and_many_transitions_at_its_own_width_and_at_4(certificate: Certificate) -> None:
    mixed = certificate.packs["mixed"]
    assert min(mixed.rounds_by_length["7"]) >= 4
    assert min(mixed.rounds_by_length["4"]) >= 4
    assert mixed.transitions["7"] >= 40
    assert mixed.transitions["4"] == 25


def test_always_lands_everything_and_never_nothing(certificate: Certificate) -> None:
    for k in range(1, 8):
        rounds = certificate.packs["always"].rounds_by_length[str(k)]
        assert sum(rounds[:-1]) <= 11  # a whole round each time, but for the last one of a stream
        assert certificate.packs["never"].rounds_by_length[str(k)][1:] == [0] * k


def test_the_packs_of_generation_two_and_the_sliding_one_cover_every_length_too(certificate: Certificate) -> None:
    for name, k in (("mixed2", 7), ("window1", 7), ("twin2", 7), ("flip2", 4)):
        assert min(certificate.packs[name].rounds_by_length[str(k)]) >= 4, name
    assert certificate.packs["flip2"].transitions["4"] == 25


def test_the_selector_of_flip2_decides_every_deciding_slot_with_a_gap_and_a_cut(certificate: Certificate) -> None:
    flip = certificate.packs["flip2"]
    assert flip.selected_share == 1.0
    assert flip.smallest_gap.gap > 1
    assert flip.smallest_cut is not None
    assert flip.smallest_cut > 1


def test_the_identity_twin_is_certified_with_the_gap_and_the_table_of_its_original(certificate: Certificate) -> None:
    mixed, twin = certificate.packs["mixed"], certificate.packs["twin2"]
    assert twin.accept_table == mixed.accept_table
    assert twin.smallest_gap == mixed.smallest_gap


def test_nearly_every_fault_in_the_cache_shows_in_some_reply_and_the_rest_is_listed(certificate: Certificate) -> None:
    history = certificate.sight.history
    assert history is not None
    assert history.share >= 0.95
    assert min(history.by_fault.values()) > 0.9
    assert sum(map(len, history.unseen.values())) == round(history.pairs * (1 - history.share))


def test_every_fault_of_a_reader_shows_on_a_pack_of_the_right_kind(certificate: Certificate) -> None:
    shown = certificate.sight.packs
    assert shown["mixed"]["heads-tiled"].ids  # four query heads over two key heads
    for fault in ("window-ignored", "window-one-more", "window-one-less"):
        assert shown["mixed2"][fault].ids, fault
        assert shown["window1"][fault].ids, fault
    for fault in ("sliding-causal", "embedding-not-scaled", "multiplier-dropped", "cap-dropped", "multiplier-after-cap"):
        assert shown["mixed2"][fault].ids, fault
    for fault in ("delta-dropped", "sides-swapped", "groups-interleaved", "looks-ahead", "wraps-around", "delta-taps-swapped"):
        assert shown["mixed2"][fault].counts, fault
    for fault in ("selector-ignored", "edges-from-anchor", "codebooks-swapped", "candidate-more", "candidate-less", "no-cut"):
        assert shown["flip2"][fault].counts, fault
    assert shown["flip2"]["taps-sorted"].counts
    assert shown["window1"]["sliding-not-causal"].ids


def test_every_wrong_rule_of_lookup_shows_on_a_hit_stream_at_both_widths(certificate: Certificate) -> None:
    for k in ("4", "7"):
        for rule, streams in certificate.sight.lookup[k].items():
            assert any(name.startswith("hit") for name in streams), (k, rule)


def test_the_deeper_companion_certifies_with_shared_keys_and_shows_each_shift_of_taps(tiny: Fixture) -> None:
    five = tiny.companion("five")
    found = read_json(Path(five.model) / "certificate.json", Certificate)
    assert found.packs["deep"].movements["bf16"].ratio > 2
    for fault in ("taps-one-lower", "taps-one-higher", "taps-reversed", "heads-tiled"):
        assert found.sight.packs["deep"][fault].counts, fault
    config = json.loads((Path(five.packs["deep"]) / "config.json").read_bytes())
    assert config["dflash_config"]["target_layer_ids"] == [1, 2, 3]


def test_the_text_companion_says_characters_of_several_bytes_and_bytes_that_are_no_text(tiny: Fixture) -> None:
    text = tiny.companion("text")
    assert [stream.role for stream in text.streams] == ["utf8", "utf8", "invalid"]
    assert all(bytes_of_ids(stream.reply_ids).decode() == stream.reply for stream in text.of_role("utf8"))
    (invalid,) = text.of_role("invalid")
    assert invalid.reply.endswith("\ufffd")
    assert {stream.prompt.isascii() for stream in text.streams} == {True}


def test_the_tie_companion_has_bit_equal_scores_where_the_lower_id_is_said(tiny: Fixture) -> None:
    tie = tiny.companion("tie")
    found = read_json(Path(tie.model) / "certificate.json", Certificate).model.ties
    assert [(one.low, one.high) for one in found] == [(26, 90), (28, 92)]
    for one in found:
        for name, places in one.places.items():
            assert {tie.stream(name).reply_ids[at] for at in places} == {one.low}


def test_the_files_agree_on_context_and_end_tokens(tiny: Fixture) -> None:
    config, tokenizer = (json.loads((Path(tiny.model) / name).read_bytes()) for name in ("config.json", "tokenizer_config.json"))
    assert config["max_position_embeddings"] == 1024
    assert config["vocab_size"] == 288
    assert tiny.vocab_bound == 256
    assert config["eos_token_id"] == tokenizer["eos_token_id"] == [185, 187]


class Loop:
    """A greedy loop that really runs: prompt in, tokens out, one target pass and one block a round, nothing precomputed."""

    def __init__(self, teacher: Teacher, recipe: Recipe, pack: PackRecipe, directory: str) -> None:
        self.teacher, self.recipe, self.pack = teacher, recipe, pack
        self.weights = read_pack(Path(directory))

    def target(self, ids: list[int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the next token after every position, and the tap rows."""
        states = forward(self.teacher.weights, self.recipe.model, np.array([ids]))
        scores = self.teacher.head_scores(states.final)[0, :, :256]
        taps = np.concatenate([states.residuals[tap] for tap in self.pack.shape.taps], axis=-1)
        return scores.argmax(axis=1), taps

    def drafts(self, ids: list[int], taps: NDArray[np.float64]) -> list[int]:
        """Propose after the last token of `ids`, whose own tap row does not exist yet."""
        embedding, shape = self.teacher.weights[EMBEDDING], self.pack.shape
        inputs = DraftInputs(taps, embedding[[[ids[-1]]]], embedding[shape.mask_token_id], len(ids) - 1)
        states = run_draft(self.weights, shape, inputs)
        hidden = states.hidden(self.weights[shape.last_down], self.weights["norm.weight"], 1e-6)[0]
        logits = self.teacher.head_scores(hidden)[..., :256]
        return [int(token) for token in choose(Selector.of(self.weights, shape), hidden, logits, np.array(ids[-1:])).drafts[0]]

    def run(self, prompt: tuple[int, ...], budget: int, k: int) -> tuple[list[int], list[int]]:
        """Return the reply and the accept length of each round."""
        ids = list(prompt)
        following, taps = self.target(ids)
        accepted: list[int] = []
        while True:
            ids.append(int(following[-1]))
            room = min(k, budget - (len(ids) - len(prompt)))
            if room == 0:
                return ids[len(prompt) :], accepted
            proposed = self.drafts(ids, taps)[:room]
            following, taps = self.target(ids + proposed)
            said = following[len(ids) - 1 :]
            take = next((at for at, token in enumerate(proposed) if token != said[at]), room)
            accepted.append(take)
            ids += proposed[:take]
            following, taps = following[: len(ids)], taps[:, : len(ids)]
            if len(ids) - len(prompt) == budget:
                return ids[len(prompt) :], accepted


@pytest.mark.parametrize(
    ("pack", "stream", "k"),
    [
        ("mixed", "main-1", 7),
        ("mixed", "burst-1", 4),
        ("always", "hit-1", 5),
        ("never", "miss-1", 7),
        ("mixed2", "main-2", 7),
        ("mixed2", "repeat-1", 3),
        ("flip2", "main-3", 4),
        ("flip2", "decoy-1", 2),
        ("window1", "hit-2", 7),
        ("twin2", "main-1", 7),
    ],
)
def test_a_loop_that_really_runs_says_the_stream_and_accepts_as_the_table_says(
    tiny: Fixture, tiny_recipe: Recipe, tiny_teacher: Teacher, certificate: Certificate, pack: str, stream: str, k: int
) -> None:
    loop = Loop(tiny_teacher, tiny_recipe, packs(tiny_recipe)[pack], tiny.packs[pack])
    prescribed = tiny.stream(stream)
    reply, accepted = loop.run(prescribed.prompt_ids, 24, k)
    table = certificate.packs[pack].accept_table[stream]
    want, emitted = [], 1
    while emitted < 24:
        want.append(min(table[emitted - 1], k, 24 - emitted))
        emitted += want[-1] + 1
    assert reply == list(prescribed.reply_ids)
    assert accepted == want
