"""The one writer of Q4NX containers: q4_1 tiles and the file around them. It does not know what the weights do.

Letters: N rows and K columns of one logical matrix; a group is 32 columns of a row, a tile 32 rows by 256 columns.
Layout: docs of the Q4NX format, and tests/golden/q4nx for the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.fabricate import envelope
from harness.fabricate.errors import FabricationError
from harness.fabricate.numerics import Floats, bf16_bytes, bf16_values, to_bf16
from harness.records.files import write_bytes

FILE_NAME = "model.q4nx"
GROUP = 32
TILE_ROWS = 32
TILE_COLUMNS = 256
TILE_BYTES = 5120
_PLANE = 512  # bytes of the scales of one tile, and of its mins
_TILE_GROUPS = TILE_COLUMNS // GROUP
_MAX_CODE = 15


@dataclass(frozen=True, slots=True)
class Q41:
    """A matrix in q4_1: weight = code * scale + min, code 0..15."""

    codes: NDArray[np.uint8]  # [N, K]
    scales: NDArray[np.float64]  # [N, K / 32], every value exact in bf16
    mins: NDArray[np.float64]  # [N, K / 32], every value exact in bf16

    @property
    def shape(self) -> tuple[int, int]:
        """The logical shape [N, K]."""
        return self.codes.shape[0], self.codes.shape[1]

    def decode(self) -> NDArray[np.float64]:
        """Return the weights [N, K], rounded to float32 as a reader of the file computes them."""
        scales, mins = (np.repeat(part, GROUP, axis=1).astype(np.float32) for part in (self.scales, self.mins))
        return (self.codes.astype(np.float32) * scales + mins).astype(np.float64)

    def times(self, factor: float) -> Q41:
        """Return the matrix times a power of two, which is exact: no ratio between two products changes."""
        assert np.frexp(factor)[0] == 0.5, f"{factor} is no power of two"
        return Q41(self.codes, self.scales * factor, self.mins * factor)


def group_range(weights: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scale and min [..., 1] of groups [..., 32], both in bf16; a constant group has scale 0."""
    low, high = weights.min(-1, keepdims=True), weights.max(-1, keepdims=True)
    return to_bf16((high - low) / _MAX_CODE).astype(np.float64), to_bf16(low).astype(np.float64)


def nearest_codes(weights: Floats, scales: Floats, mins: Floats) -> NDArray[np.uint8]:
    """Return the codes 0..15 nearest to the weights under given scales and mins; 0 where the scale is 0."""
    steps = np.divide(weights - mins, scales, out=np.zeros_like(weights), where=scales != 0)
    return np.asarray(np.clip(np.rint(steps), 0, _MAX_CODE), np.uint8)


def quantise(weights: Floats) -> Q41:
    """Round a matrix [N, K] to q4_1, each group by itself. K must be a multiple of 32."""
    rows, columns = weights.shape
    assert columns % GROUP == 0, f"K={columns} is no multiple of {GROUP}"
    groups = weights.astype(np.float64).reshape(rows, columns // GROUP, GROUP)
    scales, mins = group_range(groups)
    return Q41(nearest_codes(groups, scales, mins).reshape(rows, columns), scales[..., 0], mins[..., 0])


def pack_tiles(matrix: Q41) -> NDArray[np.uint8]:
    """Return the tiles [T, 5120] of a matrix, row-major over the grid; K is padded right with zero code, scale, min.

    Raises FabricationError when N is no multiple of 32.
    """
    rows, columns = matrix.shape
    if rows % TILE_ROWS:
        raise FabricationError(f"q4_1 tiles: {rows} rows; a tile has {TILE_ROWS} rows, give a multiple")
    padding = -columns % TILE_COLUMNS
    codes = np.pad(matrix.codes, ((0, 0), (0, padding)))
    planes = [np.pad(part, ((0, 0), (0, padding // GROUP))) for part in (matrix.scales, matrix.mins)]
    grid = (rows // TILE_ROWS, (columns + padding) // TILE_COLUMNS)
    # [tile row, half, pair, parity, tile column, k] -> [tile, half, k, pair, parity]
    nibbles = codes.reshape(grid[0], 2, 8, 2, grid[1], TILE_COLUMNS).transpose(0, 4, 1, 5, 2, 3)
    data = nibbles[..., 0] | nibbles[..., 1] << 4
    parts = [_pack_plane(plane, grid) for plane in planes] + [data.reshape(grid[0] * grid[1], -1)]
    return np.concatenate(parts, axis=1)


def _pack_plane(plane: NDArray[np.float64], grid: tuple[int, int]) -> NDArray[np.uint8]:
    ordered = plane.reshape(grid[0], TILE_ROWS, grid[1], _TILE_GROUPS).transpose(0, 2, 3, 1)
    return np.frombuffer(bf16_bytes(ordered), np.uint8).reshape(-1, _PLANE)


def unpack_tiles(content: bytes, rows: int, columns: int) -> Q41:
    """Return the matrix [N, K] whose tiles are `content`: the inverse of pack_tiles."""
    grid = (rows // TILE_ROWS, -(-columns // TILE_COLUMNS))
    tiles = np.frombuffer(content, np.uint8).reshape(grid[0] * grid[1], TILE_BYTES)
    data = tiles[:, 2 * _PLANE :].reshape(*grid, 2, TILE_COLUMNS, 8)
    nibbles = np.stack([data & 15, data >> 4], axis=-1).transpose(0, 2, 4, 5, 1, 3)
    codes = nibbles.reshape(rows, grid[1] * TILE_COLUMNS)[:, :columns]
    scales, mins = (_unpack_plane(tiles[:, at : at + _PLANE], grid) for at in (0, _PLANE))
    return Q41(codes, scales[:, : columns // GROUP], mins[:, : columns // GROUP])


def _unpack_plane(plane: NDArray[np.uint8], grid: tuple[int, int]) -> NDArray[np.float64]:
    values = bf16_values(plane.tobytes()).reshape(*grid, _TILE_GROUPS, TILE_ROWS)
    return values.transpose(0, 3, 1, 2).reshape(grid[0] * TILE_ROWS, grid[1] * _TILE_GROUPS)


def encode_container(tensors: Mapping[str, Q41 | Floats]) -> bytes:
    """Return model.q4nx: matrices in q4_1 as packed I8 tiles, everything else as BF16, in stock order."""
    return envelope.encode({name: _entry(tensor) for name, tensor in tensors.items()})


def _entry(tensor: Q41 | Floats) -> envelope.Entry:
    if isinstance(tensor, Q41):
        tiles = pack_tiles(tensor)
        return envelope.Entry("I8", (tiles.shape[0], TILE_BYTES), tiles.tobytes())
    return envelope.Entry("BF16", tensor.shape, bf16_bytes(tensor))


def write_container(directory: Path, tensors: Mapping[str, Q41 | Floats]) -> None:
    """Write model.q4nx into a directory, whole or not at all."""
    write_bytes(directory / FILE_NAME, encode_container(tensors))


def read_container(directory: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.float64]]:
    """Decode the weights of a container from its bytes; `shapes` holds the logical shape of every tensor.

    Raises FabricationError when the file holds other tensors than `shapes` names.
    """
    path = directory / FILE_NAME
    entries = envelope.read(path)
    if entries.keys() != shapes.keys():
        odd = sorted(entries.keys() ^ shapes.keys())
        raise FabricationError(f"{path}: tensors {odd} are missing or unknown; fabricate it again")
    return {name: _decode(entries[name], shape) for name, shape in shapes.items()}


def _decode(entry: envelope.Entry, shape: tuple[int, ...]) -> NDArray[np.float64]:
    if entry.dtype == "I8":
        return unpack_tiles(entry.content, *shape).decode()
    return bf16_values(entry.content).reshape(shape)
