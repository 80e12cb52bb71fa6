"""Keys and values of committed positions, of every draft layer, in one growing store. Knows no arithmetic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HeadRows = NDArray[np.float32]  # [kv heads, positions, head_dim]

FIRST_CAPACITY = 256  # positions


class ContextCache:
    """The context of one request. Rows behind `num_positions` are scratch: a block's own, overwritten by the next context."""

    def __init__(self, num_layers: int, num_kv_heads: int, head_dim: int) -> None:
        self.num_positions = 0  # committed; the index of a row is its position
        self._store = np.empty((num_layers, 2, num_kv_heads, FIRST_CAPACITY, head_dim), np.float32)

    def clear(self) -> None:
        """Forget all positions."""
        self.num_positions = 0

    def reserve(self, num_positions: int) -> None:
        """Make room for so many positions; what is committed stays."""
        capacity = self._store.shape[3]
        if num_positions <= capacity:
            return
        grown = np.empty((*self._store.shape[:3], max(num_positions, 2 * capacity), self._store.shape[4]), np.float32)
        grown[:, :, :, : self.num_positions] = self._store[:, :, :, : self.num_positions]
        self._store = grown

    def write(self, layer: int, start: int, keys: HeadRows, values: HeadRows) -> None:
        """Put rows at the positions from `start` on; they are committed when `num_positions` has moved behind them."""
        stop = start + keys.shape[1]
        self._store[layer, 0, :, start:stop] = keys
        self._store[layer, 1, :, start:stop] = values

    def read(self, layer: int, start: int, stop: int) -> tuple[HeadRows, HeadRows]:
        """Return keys and values of the positions start .. stop - 1, as views."""
        return self._store[layer, 0, :, start:stop], self._store[layer, 1, :, start:stop]
