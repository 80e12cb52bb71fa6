"""The few operations of a qwen3 layer, and the forward of the target over whole sequences.

It computes in the dtype and with the rounding that a `Numerics` states, and keeps no cache: certified streams are short.
It does not know what the weights are for, nor how any engine computes. Letters: S sequences, T positions, H hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.numerics import EXACT, Floats, Numerics
from harness.fabricate.shape import EMBEDDING, ModelShape

Weights = Mapping[str, NDArray[np.float64]]
Ids = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class States:
    """What a forward leaves for every position."""

    final: Floats  # [S, T, H], after the final norm: the input of lm_head
    residuals: tuple[Floats, ...]  # per layer [S, T, H], after both additions: what a draft pack taps


def rms_norm(x: Floats, weight: Floats, eps: float) -> Floats:
    """Divide the last axis by its root mean square and multiply by `weight`."""
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + x.dtype.type(eps)) * weight)


def silu(x: Floats) -> Floats:
    """Return x * sigmoid(x)."""
    return np.asarray(x / (1 + np.exp(-x)))


def softmax(scores: Floats) -> Floats:
    """Return the softmax over the last axis; -inf masks."""
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def rotate(x: Floats, positions: NDArray[np.int64], theta: float) -> Floats:
    """Apply rotary embedding: x [..., positions, head_dim], pairs (j, j + head_dim / 2), angles theta^(-2j/head_dim)."""
    half = x.shape[-1] // 2
    angles = positions[..., None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def linear(x: Floats, weight: Floats) -> Floats:
    """Return x [..., in] times weight [out, in] transposed, as one product over all rows."""
    return (x.reshape(-1, x.shape[-1]) @ weight.T).reshape(*x.shape[:-1], -1)


def heads(x: Floats, head_dim: int) -> Floats:
    """Split [..., T, width] into heads [..., head, T, head_dim]."""
    return np.swapaxes(x.reshape(*x.shape[:-1], -1, head_dim), -2, -3)


def merge_heads(x: Floats) -> Floats:
    """Undo `heads`: [..., head, T, head_dim] to [..., T, width]."""
    swapped = np.swapaxes(x, -2, -3)
    return swapped.reshape(*swapped.shape[:-2], -1)


def feed_forward_inner(weights: Weights, prefix: str, x: Floats) -> Floats:
    """Return silu(gate) * up, the input of down_proj; x is the normed input."""
    return silu(linear(x, weights[f"{prefix}mlp.gate_proj.weight"])) * linear(x, weights[f"{prefix}mlp.up_proj.weight"])


def cast(weights: Weights, numerics: Numerics) -> dict[str, Any]:
    """Return the weights as the computation reads them; embedding and norms are exact in bf16, so that rounding leaves them."""
    return {name: numerics.weight(tensor.astype(numerics.dtype)) for name, tensor in weights.items()}


def forward(weights: Weights, shape: ModelShape, ids: Ids, numerics: Numerics = EXACT) -> States:
    """Run the trunk causally over whole sequences, ids [S, T]. The head is not applied."""
    cast_weights = cast(weights, numerics)
    x = numerics.residual(cast_weights[EMBEDDING][ids])
    residuals = []
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        x = numerics.residual(x + _attention(cast_weights, shape, prefix, x, numerics))
        normed = rms_norm(x, cast_weights[f"{prefix}post_attention_layernorm.weight"], shape.rms_norm_eps)
        inner = numerics.activation(feed_forward_inner(cast_weights, prefix, numerics.activation(normed)))
        x = numerics.residual(x + linear(inner, cast_weights[f"{prefix}mlp.down_proj.weight"]))
        residuals.append(x)
    final = rms_norm(x, cast_weights["model.norm.weight"], shape.rms_norm_eps)
    return States(numerics.activation(final), tuple(residuals))


def _attention(weights: Weights, shape: ModelShape, prefix: str, x: Floats, numerics: Numerics) -> Floats:
    normed = numerics.activation(rms_norm(x, weights[f"{prefix}input_layernorm.weight"], shape.rms_norm_eps))
    positions = np.arange(x.shape[1])
    scale = np.asarray(np.sqrt(shape.head_dim), x.dtype)
    query, key = (
        project_heads(weights, f"{prefix}self_attn.{part}", normed, positions, shape.rope_theta, shape.rms_norm_eps)
        for part in "qk"
    )
    query, key = numerics.activation(query / scale if numerics.both_sides else query), numerics.activation(key)
    value = numerics.activation(heads(linear(normed, weights[f"{prefix}self_attn.v_proj.weight"]), shape.head_dim))
    groups = shape.heads // shape.kv_heads
    key, value = np.repeat(key, groups, axis=1), np.repeat(value, groups, axis=1)
    scores = query @ np.swapaxes(key, -1, -2)
    if not numerics.both_sides:
        scores = scores / scale
    future = positions[None, :] > positions[:, None]
    mixed = _mixed(np.where(future, np.asarray(-np.inf, x.dtype), scores), value, numerics)
    return linear(numerics.activation(merge_heads(mixed)), weights[f"{prefix}self_attn.o_proj.weight"])


def _mixed(scores: Floats, value: Floats, numerics: Numerics) -> Floats:
    """Return the values mixed by the softmax of scores; a device rounds the shares before it divides by their sum."""
    if not numerics.both_sides:
        return np.asarray(softmax(scores) @ value)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(numerics.activation(shares) @ value / shares.sum(-1, keepdims=True))


def project_heads(weights: Weights, name: str, normed: Floats, positions: NDArray[np.int64], theta: float, eps: float) -> Floats:
    """Return queries or keys [..., head, T, head_dim]: projected, normed per head, turned; `name` ends in q or k."""
    norm = weights[f"{name}_norm.weight"]
    projected = heads(linear(normed, weights[f"{name}_proj.weight"]), norm.shape[0])
    return rotate(rms_norm(projected, norm, eps), positions, theta)
