"""The batched draft forward against one that runs a single anchor by itself, written the slow way, for each kind of pack."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from harness.fabricate.draft_shape import DraftShape, Generation2
from harness.fabricate.draft_trunk import DynamicsDials, Tensors, random_draft
from harness.fabricate.drafter import DraftInputs, run_draft
from harness.fabricate.numerics import FLOAT32
from harness.fabricate.shape import ModelShape
from harness.fabricate.trunk import TrunkDials

MODEL = ModelShape(hidden=256, intermediate=256, layers=3, heads=2, kv_heads=1, head_dim=128, vocab=256, padded_vocab=288)
ROWS, ANCHORS, FIRST = 9, 3, 6
FULL = DraftShape(intermediate=40, layers=2, heads=4, kv_heads=2, head_dim=6, taps=(0, 1), block_size=4, mask_token_id=0)
SLIDING = msgspec.structs.replace(FULL, window=5, full_layers=(1,))
SECOND = msgspec.structs.replace(
    FULL, window=5, input_embedding_scale=2.0, generation_2=Generation2(conv_kernel_size=3, conv_group_size=64)
)
SHAPES = [pytest.param(FULL, id="full"), pytest.param(SLIDING, id="sliding and full"), pytest.param(SECOND, id="generation 2")]
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


def mixed(weights: Mapping[str, Array], conv: str, side: int, rows: list[Array], unmixed: list[Array]) -> list[Array]:
    """Mix slots with three taps and groups of 64 channels."""
    result = []
    for slot in range(len(rows)):
        deltas = weights[f"{conv}.kernel_projection.weight"] @ unmixed[slot]
        total = np.zeros(256)
        for tap in range(min(3, slot + 1)):
            for group in range(4):
                channels = slice(group * 64, group * 64 + 64)
                coefficient = weights[f"{conv}.base_kernel"][side, tap, channels] + deltas[side * 12 + tap * 4 + group]
                total[channels] += coefficient * rows[slot - tap][channels]
        result.append(total)
    return result


def attention(
    weights: Mapping[str, Array], name: str, rows: list[Array], context: list[Array], rule: tuple[int | None, bool]
) -> Array:
    """Attend from a block at positions len(context) .. to all that the rule (window, causal) lets it see."""
    window, causal = rule
    sources = [*context, *rows]
    attended = np.zeros((len(rows), 24))
    for slot, query_row in enumerate(rows):
        place = len(context) + slot
        seen = [
            (position, row)
            for position, row in enumerate(sources)
            if not (causal and position > place) and (window is None or abs(place - position) < window)
        ]
        for head in range(4):
            query = turn(norm(project(weights, f"{name}q", query_row, head), weights[f"{name}q_norm.weight"]), place)
            keys = [
                turn(norm(project(weights, f"{name}k", row, head // 2), weights[f"{name}k_norm.weight"]), position)
                for position, row in seen
            ]
            values = np.array([project(weights, f"{name}v", row, head // 2) for _, row in seen])
            shares = np.exp(np.array(keys) @ query / np.sqrt(6))
            attended[slot, head * 6 : head * 6 + 6] = shares @ values / shares.sum()
    return np.asarray(attended @ weights[f"{name}o_proj.weight"].T)


def slow_anchor(weights: Mapping[str, Array], shape: DraftShape, taps: Array, block: Array, start: int) -> Array:
    """Return the residual [B, H] after all layers for one block, row by row and head by head."""
    context = [norm(weights["fc.weight"] @ row, weights["hidden_norm.weight"]) for row in taps[:start]]
    x = block * shape.input_embedding_scale
    is_second = shape.generation_2 is not None
    for layer in range(shape.layers):
        at = f"layers.{layer}."
        for part, conv in (("input_layernorm", "attention_conv"), ("post_attention_layernorm", "mlp_conv")):
            y = [norm(row, weights[f"{at}{part}.weight"]) for row in x]
            h = mixed(weights, f"{at}{conv}", 0, y, y) if is_second else y
            if conv == "attention_conv":
                rule = (shape.window_of(layer), shape.is_causal(layer))
                output = list(attention(weights, f"{at}self_attn.", h, context, rule))
            else:
                output = []
                for row in h:
                    gate, up = (weights[f"{at}mlp.{name}_proj.weight"] @ row for name in ("gate", "up"))
                    output.append(weights[f"{at}mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up))
            x = x + np.array(mixed(weights, f"{at}{conv}", 1, output, y) if is_second else output)
    return x


def weights_of(shape: DraftShape) -> Tensors:
    return random_draft(shape, MODEL, TrunkDials(fast_pairs=1), DynamicsDials(), 1)


@pytest.fixture(scope="module")
def inputs() -> DraftInputs:
    rng = np.random.default_rng(2)
    taps = rng.standard_normal((2, ROWS, 2 * 256))
    return DraftInputs(taps, rng.standard_normal((2, ANCHORS, 256)), rng.standard_normal(256), FIRST)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_anchor_of_the_batch_is_what_it_is_alone(shape: DraftShape, inputs: DraftInputs) -> None:
    weights = weights_of(shape)
    states = run_draft(weights, shape, inputs)
    got = states.hidden(weights["layers.1.mlp.down_proj.weight"], weights["norm.weight"], 1e-6)
    for stream in range(2):
        for anchor in range(ANCHORS):
            block = np.stack([inputs.anchors[stream, anchor], *[inputs.mask] * 3])
            rows = slow_anchor(weights, shape, inputs.taps[stream], block, FIRST + anchor)[1:]
            want = np.array([norm(row, weights["norm.weight"]) for row in rows])
            np.testing.assert_allclose(got[stream, anchor], want, atol=1e-9)


def test_rows_from_the_anchor_on_are_not_seen(inputs: DraftInputs) -> None:
    weights = weights_of(FULL)
    changed = inputs.taps.copy()
    changed[:, FIRST + 1 :] += 1
    other = DraftInputs(changed, inputs.anchors, inputs.mask, FIRST)
    before, after = (run_draft(weights, FULL, one).before for one in (inputs, other))
    np.testing.assert_array_equal(before[:, :2], after[:, :2])
    assert np.any(before[:, 2] != after[:, 2])


def test_float32_computes_in_float32(inputs: DraftInputs) -> None:
    weights = weights_of(SECOND)
    exact, single = run_draft(weights, SECOND, inputs), run_draft(weights, SECOND, inputs, FLOAT32)
    assert single.inner.dtype == np.float32
    np.testing.assert_allclose(single.before, exact.before, atol=1e-3)
