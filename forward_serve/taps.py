"""The rows that a draft head reads from the target: an append-only store. Knows neither model nor head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forward_serve.errors import EngineError

Rows = NDArray[np.float32]  # [rows, features]


class TapSink:
    """Tap rows [rows, T * H] of the positions that were run since the last `clear`, in order.

    Tap id i is the residual stream after target layer i; a row is the taps side by side, in the order of `layer_ids`.
    The base appends on every pass while it has a sink; a row's index is its position if the sink was clear at position 0.
    """

    def __init__(self, layer_ids: Sequence[int], hidden_size: int, capacity: int) -> None:
        """Make room for `capacity` rows of `layer_ids` taps of `hidden_size` each."""
        if not layer_ids or min(layer_ids) < 0:
            raise EngineError(f"tap layers {list(layer_ids)}: a sink needs one layer id or more, each 0 or above")
        self.layer_ids = tuple(layer_ids)
        self._rows = np.empty((capacity, len(layer_ids) * hidden_size), np.float32)
        self._num_rows = 0

    def __len__(self) -> int:
        return self._num_rows

    def append(self, layers: Sequence[Rows]) -> None:
        """Append one pass: `layers` holds the residual stream [rows, H] after each layer of `layer_ids`, in order."""
        rows = np.concatenate(layers, axis=1)
        stop = self._num_rows + len(rows)
        if stop > len(self._rows):
            raise EngineError(f"tap rows {self._num_rows} to {stop - 1}: the sink holds {len(self._rows)}")
        self._rows[self._num_rows : stop] = rows
        self._num_rows = stop

    def rows(self, start: int, stop: int) -> Rows:
        """Return a copy of rows `start` to `stop` - 1, [stop - start, T * H]."""
        if not 0 <= start <= stop <= self._num_rows:
            raise EngineError(f"tap rows {start} to {stop} (exclusive): the sink holds {self._num_rows}")
        return self._rows[start:stop].copy()

    def truncate(self, num_rows: int) -> None:
        """Keep the first `num_rows` rows."""
        if not 0 <= num_rows <= self._num_rows:
            raise EngineError(f"tap sink cut to {num_rows} rows: it holds {self._num_rows}")
        self._num_rows = num_rows

    def clear(self) -> None:
        """Forget every row."""
        self._num_rows = 0
