"""The products of a forward pass: linear maps and attention whose rows do not depend on each other. Knows no model.

Speculation is lossless only if a row's result is the same bits whichever rows share its pass. A matrix product does not
promise that: BLAS picks kernels, and with them the order of its sums, by shape and by a row's place in the matrix (a
fixed 16-row tile is not enough either: OpenBLAS' Haswell kernel sums rows 0-5, 6-11 and 12-15 in different orders). So
every row here is a BLAS call of its own whose shape the row alone decides. That costs a k-row pass k vector products,
and makes the promise hold by construction on every CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]  # [rows, features]
Rounding = Callable[[Rows], Rows]  # what becomes of the inputs of a product

HOST_WIDTH = 16  # rows of a host pass; vector products have no width of their own
KEY_MULTIPLE = 64  # at least HOST_WIDTH, so that a pass meets two key lengths at most


class Products(Protocol):
    """What computes a pass. A device rounds, counts and submits here; the model's code stays the same."""

    @property
    def width(self) -> int:
        """Rows of one pass."""

    @property
    def key_multiple(self) -> int:
        """The key and value caches hold a multiple of this many positions."""

    def begin_pass(self) -> None:
        """Note that one pass starts; a device submits its work here."""

    def prepare(self, weight: Rows) -> Rows:
        """Return `weight` [out, in] as `linear` wants it; called once per weight."""

    def linear(self, rows: Rows, weight: Rows) -> Rows:
        """Return rows @ weight.T, [rows, out], for `rows` [rows, in] and a prepared `weight` [out, in]."""

    def attend(self, query: Rows, keys: Rows, values: Rows, start: int) -> Rows:
        """Return causal attention [rows, NKV, G, D] of `query` [rows, NKV, G, D], whose row r is position start + r.

        `keys` and `values` [NKV, capacity, D] hold positions 0 to start + rows - 1; what lies behind them is finite
        and without effect. G query heads share a key head; scores are scaled by D ** -0.5.
        """


class HostProducts:
    """float32 on the host: a stack of vector-matrix products, one per row, and in attention one per row and head."""

    width = HOST_WIDTH
    key_multiple = KEY_MULTIPLE

    def begin_pass(self) -> None:
        """Do nothing: the host has no queue."""

    def prepare(self, weight: Rows) -> Rows:
        """Return `weight` itself: a vector product reads [out, in] row by row as fast as its transpose."""
        return weight

    def linear(self, rows: Rows, weight: Rows) -> Rows:
        """Return rows @ weight.T, [rows, out]; see `Products.linear`."""
        return linear(rows, weight)

    def attend(self, query: Rows, keys: Rows, values: Rows, start: int) -> Rows:
        """Return causal attention [rows, NKV, G, D]; see `Products.attend`."""
        return attend(query, keys, values, start, self.key_multiple)


def linear(rows: Rows, weight: Rows) -> Rows:
    """Return rows @ weight.T, [rows, out], as one vector-matrix product per row of `rows` [rows, in]."""
    product: Rows = np.matmul(rows[:, None, :], weight.T)
    return product[:, 0, :]


def as_they_are(inputs: Rows) -> Rows:
    """Return the inputs of a product unrounded."""
    return inputs


def attend(query: Rows, keys: Rows, values: Rows, start: int, key_multiple: int, rounding: Rounding = as_they_are) -> Rows:
    """Return causal attention as `Products.attend` says; each row reads its own keys, padded to `key_multiple`.

    `rounding` is applied to the inputs of both products: scaled queries and keys, shares and values.
    """
    spans = key_spans(start, len(query), key_multiple)
    parts = [
        _attend_span(query[rows], keys[:, :num_keys], values[:, :num_keys], start + rows.start, key_multiple, rounding)
        for rows, num_keys in spans
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def key_spans(start: int, num_rows: int, key_multiple: int) -> Iterator[tuple[slice, int]]:
    """Yield runs of rows that read equally many keys: (slice of rows, number of keys, a multiple of `key_multiple`).

    A row's number of keys follows from its position alone, never from the rows behind it in the pass.
    """
    first = 0
    while first < num_rows:
        num_keys = ((start + first) // key_multiple + 1) * key_multiple
        last = min(num_rows, num_keys - start)
        yield slice(first, last), num_keys
        first = last


def _attend_span(query: Rows, keys: Rows, values: Rows, start: int, key_multiple: int, rounding: Rounding) -> Rows:
    """Attend with rows that read the same number of keys, all of `keys` [NKV, num_keys, D]."""
    num_keys = keys.shape[1]
    scaled = rounding(query[:, :, :, None, :] * np.float32(query.shape[-1] ** -0.5))
    scores: Rows = np.matmul(scaled, rounding(keys)[:, None].transpose(0, 1, 3, 2))  # [rows, NKV, G, 1, keys]
    positions = np.arange(start, start + len(query))
    unseen = np.arange(num_keys - key_multiple, num_keys) > positions[:, None]
    np.copyto(scores[..., -key_multiple:], -np.inf, where=unseen[:, None, None, None, :])
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    mixed: Rows = np.matmul(rounding(scores), rounding(values)[:, None])  # [rows, NKV, G, 1, D]
    mixed /= scores.sum(axis=-1, keepdims=True)
    return mixed[:, :, :, 0, :]
