"""Tensors of safetensors files and the q4_1 tiles in them, as float64 arrays, read from the pages of the formats alone.

It does not know what a tensor is for. Weights are float32 by definition of the format; they are widened, not recomputed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import FileFormatError

Array = NDArray[np.float64]

TILE_BYTES = 5120
TILE_ROWS, TILE_COLUMNS, GROUP = 32, 256, 32  # one scale and one min for each row and group of 32 columns
_PLANE_BYTES = 512  # of the scales, and again of the mins
_BYTES_OF = {"BF16": 2, "I8": 1}


@dataclass(frozen=True, slots=True)
class TensorFile:
    """The bytes of one safetensors file, by tensor name."""

    path: Path
    tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]  # name -> (dtype, header shape, data)

    def bf16(self, name: str, *shape: int) -> Array:
        """Return a BF16 tensor. Raises FileFormatError where it is missing or of another shape."""
        dtype, seen, data = self._tensor(name)
        if dtype != "BF16" or seen != shape:
            raise FileFormatError(f"{self.path}: {name} is {dtype} {list(seen)}, the config asks for BF16 {list(shape)}")
        return widened(data).reshape(shape)

    def q4_1(self, name: str, num_rows: int, num_columns: int) -> Array:
        """Return a matrix [num_rows, num_columns] of q4_1 tiles. Raises FileFormatError for any other chunk."""
        dtype, seen, data = self._tensor(name)
        grid = math.ceil(num_rows / TILE_ROWS), math.ceil(num_columns / TILE_COLUMNS)
        if dtype != "I8" or seen[-1] != TILE_BYTES or math.prod(seen[:-1]) != math.prod(grid):
            raise FileFormatError(
                f"{self.path}: {name} is {dtype} {list(seen)}, a q4_1 matrix of {num_rows} x {num_columns} is I8 "
                f"[{math.prod(grid)}, {TILE_BYTES}]"
            )
        return untiled(data, *grid)[:num_rows, :num_columns]

    def _tensor(self, name: str) -> tuple[str, tuple[int, ...], bytes]:
        if name not in self.tensors:
            raise FileFormatError(f"{self.path}: tensor {name} is missing; it is one of {len(self.tensors)} in no file")
        return self.tensors[name]


def content_of(path: Path) -> bytes:
    """Return the bytes of a file. Raises FileFormatError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror}); fabricate the recipe again") from error


def read_tensor_file(path: Path) -> TensorFile:
    """Read a whole safetensors file. Raises FileFormatError where it is not one."""
    content = content_of(path)
    begin = 8 + int.from_bytes(content[:8], "little")
    if len(content) < 8 or begin > len(content):
        raise FileFormatError(f"{path}: {len(content)} bytes, the header needs {begin}; fabricate the recipe again")
    header: dict[str, Any] = json.loads(content[8:begin])
    header.pop("__metadata__", None)
    return TensorFile(path, {name: _cut(path, name, entry, content[begin:]) for name, entry in header.items()})


def _cut(path: Path, name: str, entry: dict[str, Any], data: bytes) -> tuple[str, tuple[int, ...], bytes]:
    dtype, shape, (first, last) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if dtype not in _BYTES_OF:
        raise FileFormatError(f"{path}: {name} has dtype {dtype}; the oracle reads {' and '.join(_BYTES_OF)}")
    if not 0 <= first <= last <= len(data) or last - first != math.prod(shape) * _BYTES_OF[dtype]:
        raise FileFormatError(f"{path}: {name} {list(shape)} lies at {first} .. {last} of {len(data)} bytes; they do not fit")
    return dtype, shape, data[first:last]


def widened(data: bytes | NDArray[np.uint8]) -> Array:
    """Return bfloat16 numbers, which are the upper halves of float32, as a flat float64 array."""
    halves = np.frombuffer(data, np.dtype("<u2")).astype(np.uint32)
    return (halves << 16).view(np.float32).astype(np.float64)


def untiled(data: bytes, num_tile_rows: int, num_tile_columns: int) -> Array:
    """Return q4_1 tiles, row-major over their grid, as one matrix: code * scale + min in float32, unsigned code."""
    tiles = np.frombuffer(data, np.uint8).reshape(-1, TILE_BYTES)
    scales = widened(tiles[:, :_PLANE_BYTES].tobytes()).reshape(len(tiles), -1).astype(np.float32)
    mins = widened(tiles[:, _PLANE_BYTES : 2 * _PLANE_BYTES].tobytes()).reshape(len(tiles), -1).astype(np.float32)
    columns = np.arange(TILE_COLUMNS)
    weights = np.empty((len(tiles), TILE_ROWS, TILE_COLUMNS), np.float32)
    for row in range(TILE_ROWS):
        pairs = tiles[:, 2 * _PLANE_BYTES + (row // 16) * 2048 + columns * 8 + (row % 16) // 2]
        codes = pairs >> 4 if row % 2 else pairs & 15
        entries = columns // GROUP * TILE_ROWS + row
        weights[:, row] = codes.astype(np.float32) * scales[:, entries] + mins[:, entries]
    grid = weights.reshape(num_tile_rows, num_tile_columns, TILE_ROWS, TILE_COLUMNS)
    matrix = np.concatenate([np.concatenate(list(row_of_tiles), axis=1) for row_of_tiles in grid])
    return matrix.astype(np.float64)
