"""The arithmetic that target and drafter have in common, in float64 and as the formulas are written. It knows no model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.oracle.tensors64 import Array

Mask = NDArray[np.bool_]
Positions = NDArray[np.int64]
Places = NDArray[np.intp]


def rms(x: Array, weight: Array, eps: float) -> Array:
    """Return x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    normed: Array = x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + eps) * weight
    return normed


def linear(x: Array, weight: Array) -> Array:
    """Return x [..., in] times the transposed weight [out, in], all rows as one product."""
    rows: Array = x.reshape(-1, x.shape[-1]) @ weight.T
    return rows.reshape(*x.shape[:-1], -1)


def heads(x: Array, count: int) -> Array:
    """Return rows [..., count * d] as heads [..., count, d]."""
    return x.reshape(*x.shape[:-1], count, -1)


def silu(x: Array) -> Array:
    """Return x * sigmoid(x), without overflow on either side."""
    return x * 0.5 * (1.0 + np.tanh(0.5 * x))


def rotated(x: Array, positions: Positions, theta: float) -> Array:
    """Turn the pairs (j, j + d/2) of x [..., rows, heads, d] by position * theta^(-2j/d), as complex numbers.

    `positions` [..., rows] are absolute.
    """
    half = x.shape[-1] // 2
    pairs = x[..., :half] + 1j * x[..., half:]
    frequencies = theta ** (-2.0 * np.arange(half) / x.shape[-1])
    turned = pairs * np.exp(1j * positions[..., None, None] * frequencies)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def grouped(q: Array, num_kv_heads: int) -> Array:
    """Return queries [..., heads, d] by the kv head that they read, [..., kv heads, heads / kv heads, d]: in order, no tiling."""
    return q.reshape(*q.shape[:-2], num_kv_heads, -1, q.shape[-1])


def softmax(scores: Array, visible: Mask) -> Array:
    """Return weights over the last axis, zero where `visible` is not; every row must see a key."""
    weights = scores + np.where(visible, 0.0, -np.inf)
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


class Readout:
    """The language head as scores over its rows. Equal rows have equal scores to the last bit: each is computed once."""

    def __init__(self, head: Array) -> None:
        """`head` is [V, H]."""
        distinct, place = np.unique(head, axis=0, return_inverse=True)
        self._place = place.reshape(-1)
        self._rows = distinct

    def scores(self, hidden: Array) -> Array:
        """Return scores [..., V] of hidden rows [..., H]."""
        return linear(hidden, self._rows)[..., self._place]


def best(scores: Array) -> Places:
    """Return the place of the largest score [...] of [..., n]; of equal ones the lowest."""
    place: Places = scores.argmax(axis=-1)
    return place


def margins(scores: Array) -> Array:
    """Return by how much the largest score [...] of [..., n] leads the next smaller one, as a share of the largest absolute one.

    Equal scores do not count: equal rows give them in any arithmetic, and the lowest id wins. At most 2.
    """
    largest = scores.max(axis=-1, keepdims=True)
    following = np.where(scores < largest, scores, -np.inf).max(axis=-1)
    leads: Array = np.minimum((largest[..., 0] - following) / np.abs(scores).max(axis=-1), 2.0)
    return leads
