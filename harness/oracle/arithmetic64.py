"""The arithmetic that target and drafter have in common, in float64 and as the formulas are written. It knows no model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.oracle.tensors64 import Array

Mask = NDArray[np.bool_]
Positions = NDArray[np.int64]


def rms(x: Array, weight: Array, eps: float) -> Array:
    """Return x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    return x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + eps) * weight


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


def attended(q: Array, k: Array, v: Array, visible: Mask) -> Array:
    """Return softmax(q k / sqrt(d)) v [..., rows, heads, d] over the keys that each row may see.

    `q` is [..., rows, heads, d], `k` and `v` [..., keys, kv heads, d], `visible` [..., rows, keys]. Query head h reads kv head
    h // (heads / kv heads). Every row must see a key.
    """
    share = q.shape[-2] // k.shape[-2]
    grouped = q.reshape(*q.shape[:-2], k.shape[-2], share, q.shape[-1])
    scores = np.einsum("...qhgd,...khd->...hgqk", grouped, k, optimize=True) / np.sqrt(q.shape[-1])
    scores = np.where(visible[..., None, None, :, :], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("...hgqk,...khd->...qhgd", weights, v, optimize=True).reshape(q.shape)


class Readout:
    """The language head as scores over its rows. Equal rows have equal scores to the last bit: each is computed once."""

    def __init__(self, head: Array) -> None:
        """`head` is [V, H]."""
        distinct, place = np.unique(head, axis=0, return_inverse=True)
        self._place = place.reshape(-1)
        self._columns = distinct.T

    def scores(self, hidden: Array) -> Array:
        """Return scores [..., V] of hidden rows [..., H]."""
        scores: Array = (hidden @ self._columns)[..., self._place]
        return scores


def best(scores: Array) -> NDArray[np.intp]:
    """Return the place of the largest score [...] of [..., n]; of equal ones the lowest."""
    return scores.argmax(axis=-1)


def margins(scores: Array) -> Array:
    """Return by how much the largest score leads the second [...] of [..., n], as a share of the largest absolute one."""
    ordered = np.partition(scores, -2, axis=-1)
    return (ordered[..., -1] - ordered[..., -2]) / np.abs(scores).max(axis=-1)
