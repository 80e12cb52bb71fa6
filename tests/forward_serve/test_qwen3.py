"""The forward: golden logits, rows that depend on no neighbour, a cache that forgets cleanly, taps in order."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from forward_serve.container import Container
from forward_serve.decoding.interfaces import Base
from forward_serve.errors import EngineError
from forward_serve.products import KEY_MULTIPLE, HostProducts
from forward_serve.qwen3 import Qwen3Base
from tests.forward_serve.models import NUM_IDS, Floats, new_base, one_by_one, sink_of, some_ids

HELLO = [39, 68, 75, 75, 78]


def naive_forward(container: Container, ids: list[int]) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Logits [ids, V] and the residual stream after each layer, float64, head by head over the whole sequence."""
    config, head_dim = container.config, container.config.head_dim
    half, num_heads, num_kv_heads = head_dim // 2, config.num_attention_heads, config.num_key_value_heads

    def norm(rows: NDArray[np.float64], weight: Floats) -> NDArray[np.float64]:
        return np.asarray(rows / np.sqrt((rows**2).mean(-1, keepdims=True) + config.rms_norm_eps) * weight)

    def rope(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        angles = np.outer(np.arange(len(rows)), config.rope_theta ** (-2 * np.arange(half) / head_dim))
        first, second = rows[:, :half], rows[:, half:]
        turned = [first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)]
        return np.concatenate(turned, axis=1)

    rows = container.weights.embedding[list(ids)].astype(float)
    after_layer = []
    for layer in container.weights.layers:
        heads = np.split(norm(rows, layer.input_norm) @ layer.qkv.T.astype(float), num_heads + 2 * num_kv_heads, axis=1)
        mixed = []
        for head in range(num_heads):
            kv_head = num_heads + head // (num_heads // num_kv_heads)
            query, key = rope(norm(heads[head], layer.query_norm)), rope(norm(heads[kv_head], layer.key_norm))
            scores = query @ key.T / head_dim**0.5
            scores[np.triu_indices(len(ids), 1)] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            mixed.append(shares / shares.sum(-1, keepdims=True) @ heads[kv_head + num_kv_heads])
        rows = rows + np.concatenate(mixed, axis=1) @ layer.output.T.astype(float)
        gate, up = np.split(norm(rows, layer.post_attention_norm) @ layer.gate_up.T.astype(float), 2, axis=1)
        rows = rows + gate / (1 + np.exp(-gate)) * up @ layer.down.T.astype(float)
        after_layer.append(rows)
    return norm(rows, container.weights.final_norm) @ container.weights.lm_head.T.astype(float), after_layer


def test_golden_container_gives_the_recorded_logits(golden: Container) -> None:
    got = new_base(golden).forward(HELLO)
    assert got.shape == (5, 256)
    assert got.argmax(axis=1).tolist() == [8, 9, 11, 11, 14]
    assert np.argsort(-got[-1])[:5].tolist() == [14, 30, 62, 46, 110]
    np.testing.assert_allclose(got[-1, :4], [-0.090506, 0.512834, 0.009853, -0.506197], atol=1e-5)
    assert got[-1].max() == pytest.approx(0.669543, abs=1e-5)


def test_logits_and_taps_equal_a_naive_float64_forward(container: Container) -> None:
    ids = some_ids(container, 40)
    tap_layers = list(range(container.config.num_hidden_layers))
    base = new_base(container, tap_layers)
    got = np.concatenate([base.forward(ids[first : first + 8]) for first in range(0, 40, 8)])
    want, after_layer = naive_forward(container, ids)
    np.testing.assert_allclose(got, want, atol=2e-4)
    np.testing.assert_allclose(sink_of(base).rows(0, 40), np.concatenate(after_layer, axis=1), atol=2e-4)


def test_a_base_is_what_the_loop_wants(grouped: Container) -> None:
    base: Base = new_base(grouped)
    assert base.forward([1]).shape == (1, 288)
    assert (base.vocab_bound, base.width, base.num_positions, base.last_hidden) == (261, 16, 1, None)


@pytest.mark.parametrize("width", range(1, 17))
def test_a_token_has_the_same_bits_at_each_offset_of_a_pass_of_this_width(container: Container, width: int) -> None:
    ids = some_ids(container, NUM_IDS)
    other_ids = some_ids(container, 16, seed=1)
    base = new_base(container)
    want = one_by_one(base, ids)
    for position in (width - 1, KEY_MULTIPLE - 1, KEY_MULTIPLE, 2 * KEY_MULTIPLE - 1, 2 * KEY_MULTIPLE + 3):
        for offset in range(width):
            start = position - offset
            base.truncate(start)
            got = base.forward([*ids[start : position + 1], *other_ids[: width - offset - 1]])
            assert got[: offset + 1].tobytes() == want[start : position + 1].tobytes(), (position, offset)
        base.truncate(start)
        base.prefill(ids[start:])


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7, 16])
def test_prefill_after_a_first_chunk_equals_token_by_token(container: Container, chunk: int) -> None:
    ids = some_ids(container, NUM_IDS)
    want = one_by_one(new_base(container), ids)
    base = new_base(container)
    base.prefill(ids[:chunk])
    assert base.prefill(ids[chunk:]).tobytes() == want[-1].tobytes()
    assert base.num_positions == NUM_IDS


def test_head_and_embed_give_the_logits_and_rows_of_the_model(grouped: Container) -> None:
    base = new_base(grouped, keep_hidden=True)
    logits = base.forward(some_ids(grouped, 9))
    hidden = base.last_hidden
    assert hidden is not None
    assert hidden.shape == (9, 256)
    assert base.head(hidden[2:7]).tobytes() == logits[2:7].tobytes()
    padded_row = 287
    np.testing.assert_array_equal(base.embed([3, padded_row]), grouped.weights.embedding[[3, padded_row]])


@pytest.mark.parametrize("kept", [0, 1, 40, KEY_MULTIPLE - 1, KEY_MULTIPLE, KEY_MULTIPLE + 1])
def test_truncate_and_another_continuation_leave_no_trace(container: Container, kept: int) -> None:
    ids, other_ids = some_ids(container, NUM_IDS), some_ids(container, 30, seed=2)
    base = new_base(container)
    want = one_by_one(base, ids)
    base.truncate(kept)
    base.prefill(other_ids)
    base.truncate(kept)
    assert base.num_positions == kept
    assert one_by_one(base, ids[kept:]).tobytes() == want[kept:].tobytes()


def test_reset_starts_again_at_position_0_without_taps(container: Container) -> None:
    base = new_base(container, [0])
    want = base.prefill(HELLO)
    base.prefill(some_ids(container, 50))
    base.reset()
    assert (base.num_positions, len(sink_of(base))) == (0, 0)
    assert base.prefill(HELLO).tobytes() == want.tobytes()


def test_a_pass_whose_hook_raises_counts_for_nothing_and_the_next_one_is_right(container: Container) -> None:
    ids = some_ids(container, 30)
    want = one_by_one(new_base(container), ids)
    base = new_base(container, [1], keep_hidden=True)
    base.prefill(ids[:20])
    hidden = base.last_hidden
    key_rows: list[float] = []

    def fail() -> None:
        key_rows.append(float(np.abs(base._keys[0, :, 20]).max()))
        raise RuntimeError("fault")

    base.pass_hook = fail
    with pytest.raises(RuntimeError, match="fault"):
        base.forward([5, 6, 7])
    assert key_rows[0] > 0  # the first KV row had been written
    assert (base.num_positions, len(sink_of(base))) == (20, 20)
    assert base.last_hidden is hidden
    base.pass_hook = None
    assert base.forward(ids[20:]).tobytes() == want[20:].tobytes()


def test_the_hook_is_called_once_in_each_pass(grouped: Container) -> None:
    base = new_base(grouped)
    positions: list[int] = []
    base.pass_hook = lambda: positions.append(base.num_positions)
    base.prefill(some_ids(grouped, 33))
    base.forward([1])
    assert positions == [0, 16, 32, 33]


def test_a_finished_prefill_pass_stays_when_a_later_one_fails(grouped: Container) -> None:
    base = new_base(grouped)

    def fail_at_16() -> None:
        if base.num_positions == 16:
            raise RuntimeError("fault")

    base.pass_hook = fail_at_16
    with pytest.raises(RuntimeError, match="fault"):
        base.prefill(some_ids(grouped, 40))
    assert base.num_positions == 16


@pytest.mark.parametrize("ids", [[], [-1], [288], [0] * 17])
def test_a_pass_of_no_wrong_or_too_many_ids_is_an_error(grouped: Container, ids: list[int]) -> None:
    base = new_base(grouped)
    with pytest.raises(EngineError):
        base.forward(ids)
    assert base.num_positions == 0


def test_a_pass_over_the_end_of_the_context_is_an_error_and_one_up_to_it_is_not(grouped: Container) -> None:
    base = new_base(grouped)
    context = grouped.config.max_position_embeddings
    base.prefill(some_ids(grouped, context - 2))
    with pytest.raises(EngineError, match=f"the context ends at {context}"):
        base.forward([1, 2, 3])
    base.forward([1, 2])
    assert base.num_positions == context


def test_prefill_of_nothing_and_a_cut_that_is_none_are_errors(grouped: Container) -> None:
    base = new_base(grouped)
    with pytest.raises(EngineError, match="prefill of no ids"):
        base.prefill([])
    with pytest.raises(EngineError, match="the cache holds 0"):
        base.truncate(1)


class NarrowProducts(HostProducts):
    """Products of another width that count their passes and change each weight once."""

    width = 8

    def __init__(self) -> None:
        self.num_passes = 0
        self.num_prepared = 0

    def begin_pass(self) -> None:
        """Count."""
        self.num_passes += 1

    def prepare(self, weight: Floats) -> Floats:
        """Halve."""
        self.num_prepared += 1
        halved: Floats = weight * np.float32(0.5)
        return halved


def test_a_device_sets_the_width_sees_each_pass_and_prepares_each_weight(grouped: Container) -> None:
    products = NarrowProducts()
    base = Qwen3Base(grouped, products)
    assert base.width == 8
    base.prefill(some_ids(grouped, 17))
    logits = base.forward([1, 2])
    assert products.num_passes == 4
    assert products.num_prepared == 4 * grouped.config.num_hidden_layers + 1
    assert not np.array_equal(logits, new_base(grouped).forward([1, 2]))
    with pytest.raises(EngineError, match="9 rows: the products take 8"):
        base.forward([0] * 9)


def test_the_head_for_drafters_runs_on_the_host_whatever_the_products(grouped: Container) -> None:
    hidden = np.ones((2, 256), np.float32)
    want = new_base(grouped).head(hidden)
    assert Qwen3Base(grouped, NarrowProducts()).head(hidden).tobytes() == want.tobytes()
