"""Q4NX's q4_1 tiles to float32: 32 x 256 codes of four bits, a scale and a min for each row's group of 32. Knows no file.

N x K is a logical weight, of T(N, K) = ceil(N / 32) * ceil(K / 256) tiles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forward_serve import bf16
from forward_serve.errors import Refusal

Rows = NDArray[np.float32]  # [out, in]

TILE_ROWS, TILE_COLUMNS, Q4_1_BYTES = 32, 256, 5120
MAX_SCALE = 100.0


def decode_q4_1(tiles: NDArray[np.uint8], num_rows: int, num_columns: int, place: str) -> Rows:
    """Decode q4_1 tiles [T(N, K), 5120] to [num_rows, num_columns]: float32 code * scale + min, padding dropped.

    Raises Refusal, starting with `place`, for scales and mins that no q4_1 packer writes.
    """
    grid_rows, grid_columns = tile_grid(num_rows, num_columns)
    factors = bf16.widened(np.ascontiguousarray(tiles[:, :1024])).reshape(-1, 2, 8, TILE_ROWS)
    scales, mins = factors[:, 0], factors[:, 1]
    _check_factors(scales, mins, place)
    # A tile row is (half, byte, nibble), a column (group, column in group); both sides put the grid around them.
    codes = tiles[:, 1024:].reshape(grid_rows, grid_columns, 2, 8, 32, 8).transpose(0, 2, 5, 1, 3, 4)
    weight = np.empty((grid_rows, 2, 8, 2, grid_columns, 8, 32), np.float32)
    np.bitwise_and(codes, 15, out=weight[:, :, :, 0], casting="unsafe")
    np.right_shift(codes, 4, out=weight[:, :, :, 1], casting="unsafe")
    by_row = (grid_rows, grid_columns, 8, 2, 8, 2)
    weight *= scales.reshape(by_row).transpose(0, 3, 4, 5, 1, 2)[..., None]
    weight += mins.reshape(by_row).transpose(0, 3, 4, 5, 1, 2)[..., None]
    padded = weight.reshape(grid_rows * TILE_ROWS, grid_columns * TILE_COLUMNS)
    return np.ascontiguousarray(padded[:num_rows, :num_columns])


def tile_grid(num_rows: int, num_columns: int) -> tuple[int, int]:
    """Return the tiles (down, across) of a weight; their product is T(N, K)."""
    return -(-num_rows // TILE_ROWS), -(-num_columns // TILE_COLUMNS)


def _check_factors(scales: Rows, mins: Rows, place: str) -> None:
    """Refuse scales and mins [tiles, 8, 32] that are out of range, and the signed q4_0 tile."""
    bad = ~(np.abs(scales) <= MAX_SCALE) | ~np.isfinite(mins)  # so written, a NaN scale is bad
    if bad.any():
        tile, group, row = (int(index) for index in np.argwhere(bad)[0])
        scale, low = scales[tile, group, row], mins[tile, group, row]
        raise Refusal(
            f"{place}: tile {tile}, row {row}, group {group}: scale={scale}, min={low}; "
            f"both must be finite, and the scale {MAX_SCALE:g} at most in size"
        )
    signed = (mins == 0).all(axis=(1, 2)) & (scales < 0).any(axis=(1, 2))
    if signed.any():
        raise Refusal(f"{place}: tile {signed.argmax()} is a signed q4_0 tile (mins 0, a negative scale); repack as q4_1")
