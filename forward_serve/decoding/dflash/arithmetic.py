"""The few functions that a draft layer is made of, on float32 rows. Knows no layer, no cache and no configuration.

Letters of shapes: n rows, B slots, S positions, d head_dim, hq and hk query and key/value heads.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from forward_serve.decoding.dflash.context import HeadRows
from forward_serve.decoding.interfaces import Rows

Array = NDArray[np.float32]
Turn = tuple[Array, Array]  # cosine and sine, each [n, 1, d / 2]


def normed(rows: Array, weight: Array, eps: float) -> Array:
    """Divide by the root mean square over the last axis and multiply by `weight`."""
    mean_square = np.einsum("...i,...i->...", rows, rows)[..., None] / np.float32(rows.shape[-1])
    scaled: Array = rows / np.sqrt(mean_square + np.float32(eps))
    scaled *= weight
    return scaled


def silu(rows: Array) -> Array:
    """Return x * sigmoid(x), without overflow for any finite x."""
    half: Array = rows * np.float32(0.5)
    half += half * np.tanh(half)
    return half


def turn_at(start: int, num_rows: int, frequencies: NDArray[np.float64]) -> Turn:
    """Return the rotary turn of `num_rows` positions from `start` on; angles are formed in float64."""
    angles = np.arange(start, start + num_rows)[:, None, None] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def turned(rows: Array, turn: Turn) -> Array:
    """Rotate [n, heads, d] by pairs (j, j + d / 2)."""
    cosine, sine = turn
    half = rows.shape[-1] // 2
    low, high = rows[..., :half], rows[..., half:]
    return np.concatenate((low * cosine - high * sine, high * cosine + low * sine), axis=-1)


def attended(queries: Array, keys: HeadRows, values: HeadRows, visible: NDArray[np.bool_] | None) -> Rows:
    """Attend from [B, hq, d] to [hk, S, d] and return [B, hq d]; query head q reads key/value head q // (hq / hk).

    `visible` [B, S] says what each slot sees, None = everything.
    """
    num_slots, num_heads, head_dim = queries.shape
    num_kv_heads = len(keys)
    grouped = queries.reshape(num_slots, num_kv_heads, -1, head_dim).transpose(1, 2, 0, 3)
    scores = grouped.reshape(num_kv_heads, -1, head_dim) @ keys.transpose(0, 2, 1)
    scores *= np.float32(1 / math.sqrt(head_dim))
    if visible is not None:
        by_slot = scores.reshape(num_heads, num_slots, -1)
        np.copyto(by_slot, np.float32(-np.inf), where=~visible)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    mixed: Array = (scores @ values) / scores.sum(axis=-1, keepdims=True)
    by_head = mixed.reshape(num_kv_heads, -1, num_slots, head_dim).transpose(2, 0, 1, 3)
    return by_head.reshape(num_slots, num_heads * head_dim)
