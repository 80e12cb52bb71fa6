"""The batched draft forward against one that runs a single anchor by itself, written the slow way."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.fabricate.drafter import DraftInputs, run_draft
from harness.fabricate.numerics import FLOAT32
from harness.fabricate.shape import DraftShape
from harness.fabricate.trunk import TrunkDials, random_draft

HIDDEN, ROWS, ANCHORS, FIRST = 32, 9, 3, 6
SHAPE = DraftShape(intermediate=40, layers=2, heads=4, kv_heads=2, head_dim=6, taps=(0, 1), block_size=4, mask_token_id=0)
Array = NDArray[np.float64]


def norm(x: Array, weight: Array) -> Array:
    return np.asarray(x / np.sqrt((x * x).mean() + 1e-6) * weight)


def turn(x: Array, position: int) -> Array:
    half = len(x) // 2
    angles = position / 1e6 ** (2 * np.arange(half) / len(x))
    pairs = (x[:half] + 1j * x[half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag])


def project(weights: Mapping[str, Array], name: str, row: Array, head: int) -> Array:
    return weights[f"{name}_proj.weight"][head * 6 : head * 6 + 6] @ row


def slow_anchor(weights: Mapping[str, Array], taps: Array, block: Array, start: int) -> Array:
    """Return the residual [B, H] after all layers for one block, row by row and head by head."""
    context = [norm(weights["fc.weight"] @ row, weights["hidden_norm.weight"]) for row in taps[:start]]
    x = block.copy()
    for layer in range(SHAPE.layers):
        at = f"layers.{layer}."
        normed = [norm(row, weights[f"{at}input_layernorm.weight"]) for row in x]
        sources = [*enumerate(context), *((start + slot, row) for slot, row in enumerate(normed))]
        attended = np.zeros((len(x), 24))
        for slot, query_row in enumerate(normed):
            for head in range(4):
                name = f"{at}self_attn."
                query = turn(norm(project(weights, f"{name}q", query_row, head), weights[f"{name}q_norm.weight"]), start + slot)
                keys = [
                    turn(norm(project(weights, f"{name}k", row, head // 2), weights[f"{name}k_norm.weight"]), position)
                    for position, row in sources
                ]
                values = np.array([project(weights, f"{name}v", row, head // 2) for _, row in sources])
                shares = np.exp(np.array(keys) @ query / np.sqrt(6))
                attended[slot, head * 6 : head * 6 + 6] = shares @ values / shares.sum()
        x = x + attended @ weights[f"{at}self_attn.o_proj.weight"].T
        for slot, row in enumerate(x.copy()):
            inner = norm(row, weights[f"{at}post_attention_layernorm.weight"])
            gate = weights[f"{at}mlp.gate_proj.weight"] @ inner
            up = weights[f"{at}mlp.up_proj.weight"] @ inner
            x[slot] += weights[f"{at}mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up)
    return x


@pytest.fixture(scope="module")
def weights() -> dict[str, Array]:
    return random_draft(SHAPE, HIDDEN, TrunkDials(fast_pairs=1), 1)


@pytest.fixture(scope="module")
def inputs() -> DraftInputs:
    rng = np.random.default_rng(2)
    taps = rng.standard_normal((2, ROWS, 2 * HIDDEN))
    return DraftInputs(taps, rng.standard_normal((2, ANCHORS, HIDDEN)), rng.standard_normal(HIDDEN), FIRST)


def test_every_anchor_of_the_batch_is_what_it_is_alone(weights: dict[str, Array], inputs: DraftInputs) -> None:
    states = run_draft(weights, SHAPE, inputs)
    got = states.hidden(weights["layers.1.mlp.down_proj.weight"], weights["norm.weight"], 1e-6)
    for stream in range(2):
        for anchor in range(ANCHORS):
            block = np.stack([inputs.anchors[stream, anchor], *[inputs.mask] * 3])
            rows = slow_anchor(weights, inputs.taps[stream], block, FIRST + anchor)[1:]
            want = np.array([norm(row, weights["norm.weight"]) for row in rows])
            np.testing.assert_allclose(got[stream, anchor], want, atol=1e-10)


def test_rows_from_the_anchor_on_are_not_seen(weights: dict[str, Array], inputs: DraftInputs) -> None:
    changed = inputs.taps.copy()
    changed[:, FIRST + 1 :] += 1
    other = DraftInputs(changed, inputs.anchors, inputs.mask, FIRST)
    before, after = (run_draft(weights, SHAPE, one).before for one in (inputs, other))
    np.testing.assert_array_equal(before[:, :2], after[:, :2])
    assert np.any(before[:, 2] != after[:, 2])


def test_float32_computes_in_float32(weights: dict[str, Array], inputs: DraftInputs) -> None:
    exact, single = run_draft(weights, SHAPE, inputs), run_draft(weights, SHAPE, inputs, FLOAT32)
    assert single.inner.dtype == np.float32
    np.testing.assert_allclose(single.before, exact.before, atol=1e-4)
