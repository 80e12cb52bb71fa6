"""The forward of a generation 1 DFlash trunk, at every anchor of every stream at once. It does not choose any token.

An anchor is the token that a round starts from: the e-th token of a reply, e = 1 .. N-1, at position P-1+e. What the trunk
computes there depends on the tokens before it alone, never on the rounds that led there, so that one batch covers every
path. Letters: S streams, T context rows, E anchors of a stream, B slots of a block, H hidden, I intermediate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.numerics import EXACT, Floats, Numerics
from harness.fabricate.shape import DraftShape
from harness.fabricate.transformer import (
    Weights,
    cast,
    feed_forward_inner,
    heads,
    linear,
    merge_heads,
    project_heads,
    rms_norm,
    softmax,
)


@dataclass(frozen=True, slots=True)
class DraftInputs:
    """What the target hands to the trunk."""

    taps: Floats  # [S, T, taps * H]: tap rows of positions 0 .. T-1, concatenated in the pack's order
    anchors: Floats  # [S, E, H]: embedding rows of the anchor tokens
    mask: Floats  # [H]: embedding row of the mask id
    first_position: int  # of the anchor with index 0; the others follow one by one


@dataclass(frozen=True, slots=True)
class DraftStates:
    """What the trunk leaves at slots 1 .. B-1 of every anchor."""

    inner: Floats  # [S, E, B-1, I]: input of the last down_proj
    before: Floats  # [S, E, B-1, H]: residual that the output of the last down_proj is added to

    def hidden(self, down: Floats, norm: Floats, eps: float, numerics: Numerics = EXACT) -> Floats:
        """Return the final hidden states [S, E, B-1, H] under a given last down_proj [H, I]."""
        x = numerics.residual(self.before + linear(self.inner, down.astype(numerics.dtype)))
        return numerics.activation(rms_norm(x, norm.astype(numerics.dtype), eps))


def run_draft(raw: Weights, shape: DraftShape, inputs: DraftInputs, numerics: Numerics = EXACT) -> DraftStates:
    """Run the trunk on the full block of every anchor; slots see the whole block and the context before the anchor."""
    weights = cast(raw, numerics)
    taps = numerics.activation(inputs.taps.astype(numerics.dtype))
    context = numerics.activation(rms_norm(linear(taps, weights["fc.weight"]), weights["hidden_norm.weight"], shape.rms_norm_eps))
    x = numerics.residual(_blocks(inputs, shape.block_size).astype(numerics.dtype))
    inner = x
    for layer in range(shape.layers):
        prefix = f"layers.{layer}."
        x = numerics.residual(x + _attention(weights, shape, prefix, x, context, inputs.first_position, numerics))
        if layer == shape.layers - 1:
            x = x[:, :, 1:]  # nobody reads the anchor's own slot
        normed = rms_norm(x, weights[f"{prefix}post_attention_layernorm.weight"], shape.rms_norm_eps)
        inner = numerics.activation(feed_forward_inner(weights, prefix, numerics.activation(normed)))
        if layer < shape.layers - 1:
            x = numerics.residual(x + linear(inner, weights[f"{prefix}mlp.down_proj.weight"]))
    return DraftStates(inner, x)


def _blocks(inputs: DraftInputs, block_size: int) -> Floats:
    """Return the embedded blocks [S, E, B, H]: the anchor, then masks."""
    streams, anchors, hidden = inputs.anchors.shape
    blocks = np.empty((streams, anchors, block_size, hidden))
    blocks[:, :, 0] = inputs.anchors
    blocks[:, :, 1:] = inputs.mask
    return blocks


def _attention(
    weights: dict[str, Any],
    shape: DraftShape,
    prefix: str,
    x: Floats,
    context: Floats,
    first_position: int,
    numerics: Numerics,
) -> Floats:
    """Attend from every slot [S, E, B, H] to the context before its anchor and to its own block, both ways."""
    normed = numerics.activation(rms_norm(x, weights[f"{prefix}input_layernorm.weight"], shape.rms_norm_eps))
    anchors, slots = x.shape[1:3]
    rows = context.shape[1]
    starts = first_position + np.arange(anchors)
    positions = (starts[:, None] + np.arange(slots))[:, None, :]  # [E, 1, B]
    groups = shape.heads // shape.kv_heads

    def turned(part: str, source: Floats, at: NDArray[np.int64]) -> Floats:
        name = f"{prefix}self_attn.{part}"
        return numerics.activation(project_heads(weights, name, source, at, shape.rope_theta, shape.rms_norm_eps))

    def values(source: Floats) -> Floats:
        product = linear(source, weights[f"{prefix}self_attn.v_proj.weight"])
        return np.repeat(numerics.activation(heads(product, shape.head_dim)), groups, axis=-3)

    query = turned("q", normed, positions)  # [S, E, head, B, d]
    block_keys = np.repeat(turned("k", normed, positions), groups, axis=-3)
    context_keys = np.repeat(turned("k", context, np.arange(rows)), groups, axis=-3)[:, None]  # [S, 1, head, T, d]
    hidden_rows = np.where(np.arange(rows) >= starts[:, None], -np.inf, 0.0).astype(x.dtype)  # [E, T]
    scale = np.asarray(1 / np.sqrt(shape.head_dim), x.dtype)
    on_context = query @ np.swapaxes(context_keys, -1, -2) * scale + hidden_rows[:, None, None, :]
    on_block = query @ np.swapaxes(block_keys, -1, -2) * scale
    shares = softmax(np.concatenate([on_context, on_block], axis=-1))
    mixed = shares[..., :rows] @ values(context)[:, None] + shares[..., rows:] @ values(normed)
    return linear(numerics.activation(merge_heads(mixed)), weights[f"{prefix}self_attn.o_proj.weight"])
