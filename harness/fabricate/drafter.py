"""The forward of a DFlash trunk of either generation, at every anchor of every stream at once. It does not choose any token.

An anchor is the token that a round starts from: the e-th token of a reply, e = 1 .. N-1, at position P-1+e. What the trunk
computes there depends on the tokens before it alone, never on the rounds that led there, so that one batch covers every
path. Letters: S streams, T context rows, E anchors of a stream, B slots of a block, H hidden, I intermediate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.conv import Mixing, mixings
from harness.fabricate.draft_shape import DraftShape
from harness.fabricate.numerics import EXACT, Floats, Numerics
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
    """What the trunk leaves at the slots of every anchor's block, the anchor's own slot included."""

    inner: Floats  # [S, E, B, I]: input of the last down_proj
    before: Floats  # [S, E, B, H]: residual that the output of the last down_proj is added to
    mixing: Mixing | None  # what generation 2 does to that output first

    def hidden(self, down: Floats, norm: Floats, eps: float, numerics: Numerics = EXACT) -> Floats:
        """Return the final hidden states [S, E, B-1, H] of the slots behind the anchor, under a given last down_proj [H, I]."""
        output = linear(self.inner, down.astype(numerics.dtype))
        x = numerics.residual(self.before + (output if self.mixing is None else self.mixing(output)))
        return numerics.activation(rms_norm(x[:, :, 1:], norm.astype(numerics.dtype), eps))


def run_draft(raw: Weights, shape: DraftShape, inputs: DraftInputs, numerics: Numerics = EXACT) -> DraftStates:
    """Run the trunk on the full block of every anchor; slots see what their layer's window and direction let them see."""
    weights = cast(raw, numerics)
    taps = numerics.activation(inputs.taps.astype(numerics.dtype))
    context = numerics.activation(rms_norm(linear(taps, weights["fc.weight"]), weights["hidden_norm.weight"], shape.rms_norm_eps))
    x = numerics.residual(_blocks(inputs, shape).astype(numerics.dtype))
    run = _Run(weights, shape, context, inputs.first_position, numerics)
    for layer in range(shape.layers):
        normed, after = run.prepared(x, layer, "input_layernorm", "attention_conv")
        output = run.attention(normed, layer)
        x = numerics.residual(x + (output if after is None else after(output)))
        normed, after = run.prepared(x, layer, "post_attention_layernorm", "mlp_conv")
        inner = numerics.activation(feed_forward_inner(weights, f"layers.{layer}.", normed))
        if layer == shape.layers - 1:
            return DraftStates(inner, x, after)
        output = linear(inner, weights[f"layers.{layer}.mlp.down_proj.weight"])
        x = numerics.residual(x + (output if after is None else after(output)))
    raise AssertionError("a draft trunk has at least one layer")


def visible(starts: NDArray[np.int64], rows: int, slots: int, window: int | None, causal: bool) -> NDArray[np.bool_]:
    """Return which of `rows` context rows and of its own block each slot sees, [E, B, T + B]; blocks start at `starts` [E]."""
    queries = starts[:, None, None] + np.arange(slots)[:, None]
    context = np.broadcast_to(np.arange(rows), (len(starts), slots, rows))
    block = np.broadcast_to(starts[:, None, None] + np.arange(slots), (len(starts), slots, slots))
    keys = np.concatenate([context, block], axis=-1)
    seen = np.concatenate([context < starts[:, None, None], np.ones_like(block, np.bool_)], axis=-1)
    if causal:
        seen &= keys <= queries
    if window is not None:
        seen &= np.abs(queries - keys) < window
    return seen


def _blocks(inputs: DraftInputs, shape: DraftShape) -> Floats:
    """Return the embedded blocks [S, E, B, H]: the anchor, then masks."""
    streams, anchors, hidden = inputs.anchors.shape
    blocks = np.empty((streams, anchors, shape.block_size, hidden))
    blocks[:, :, 0] = inputs.anchors
    blocks[:, :, 1:] = inputs.mask
    return blocks * shape.input_embedding_scale


@dataclass(frozen=True, slots=True)
class _Run:
    """One forward: what all its layers share."""

    weights: dict[str, Any]
    shape: DraftShape
    context: Floats  # [S, T, H]
    first_position: int
    numerics: Numerics

    def prepared(self, x: Floats, layer: int, norm: str, conv: str) -> tuple[Floats, Mixing | None]:
        """Return the input of a sublayer, normed and in generation 2 mixed, and what mixes its output."""
        weight = self.weights[f"layers.{layer}.{norm}.weight"]
        normed = self.numerics.activation(rms_norm(x, weight, self.shape.rms_norm_eps))
        if self.shape.generation_2 is None:
            return normed, None
        before, after = mixings(self.weights, f"layers.{layer}.{conv}.", normed, self.shape.generation_2)
        return self.numerics.activation(before(normed)), after

    def attention(self, normed: Floats, layer: int) -> Floats:
        """Attend from every slot [S, E, B, H] to the context before its anchor and to its own block."""
        name = f"layers.{layer}.self_attn."
        anchors, slots = normed.shape[1:3]
        rows = self.context.shape[1]
        starts = self.first_position + np.arange(anchors)
        positions = (starts[:, None] + np.arange(slots))[:, None, :]  # [E, 1, B]
        query = self._turned(f"{name}q", normed, positions)  # [S, E, head, B, d]
        block_keys = self._shared(self._turned(f"{name}k", normed, positions))
        context_keys = self._shared(self._turned(f"{name}k", self.context, np.arange(rows)))[:, None]  # [S, 1, head, T, d]
        scale = np.asarray(1 / np.sqrt(self.shape.head_dim), normed.dtype)
        on_context, on_block = (query @ np.swapaxes(keys, -1, -2) * scale for keys in (context_keys, block_keys))
        seen = visible(starts, rows, slots, self.shape.window_of(layer), self.shape.is_causal(layer))
        hidden = np.where(seen, 0.0, -np.inf).astype(normed.dtype)[:, None]
        shares = softmax(np.concatenate([on_context, on_block], axis=-1) + hidden)
        mixed = shares[..., :rows] @ self._values(name, self.context)[:, None] + shares[..., rows:] @ self._values(name, normed)
        return linear(self.numerics.activation(merge_heads(mixed)), self.weights[f"{name}o_proj.weight"])

    def _turned(self, name: str, source: Floats, at: NDArray[np.int64]) -> Floats:
        projected = project_heads(self.weights, name, source, at, self.shape.rope_theta, self.shape.rms_norm_eps)
        return self.numerics.activation(projected)

    def _values(self, name: str, source: Floats) -> Floats:
        product = linear(source, self.weights[f"{name}v_proj.weight"])
        return self._shared(self.numerics.activation(heads(product, self.shape.head_dim)))

    def _shared(self, by_kv_head: Floats) -> Floats:
        """Repeat [..., kv head, T, d] for the query heads that share it."""
        return np.repeat(by_kv_head, self.shape.heads // self.shape.kv_heads, axis=-3)
