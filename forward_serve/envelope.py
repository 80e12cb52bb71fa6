"""The safetensors envelope of a container: named tensors of known dtypes that fill the file exactly.

Read here and not by a library, because tensors of unknown kinds must be refused by name, not decoded. Knows no model and no
tile: a tensor is bytes with a dtype and a shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from forward_serve.errors import Refusal
from forward_serve.files import parse_object, read_file

DTYPE_BYTES = {"BF16": 2, "I8": 1}


@dataclass(frozen=True, slots=True, eq=False)
class StoredTensor:
    """One entry of a safetensors file: `data` are its bytes, as many as dtype and shape ask for."""

    place: str  # file and name, for messages
    dtype: str
    shape: tuple[int, ...]
    data: memoryview


def read_envelope(path: Path) -> dict[str, StoredTensor]:
    """Read a safetensors file of BF16 and I8 tensors that fill its data exactly.

    Raises Refusal for a header that does not fit, an unknown dtype, an offset, size or name that breaks a rule.
    """
    raw = memoryview(read_file(path))
    header_length = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or header_length > len(raw) - 8:
        raise Refusal(f"{path}: header length {header_length} in a file of {len(raw)} bytes; the file is cut or no safetensors")
    header = parse_object(path, bytes(raw[8 : 8 + header_length]), unique=True)
    data = raw[8 + header_length :]
    header.pop("__metadata__", None)
    tensors = {name: _stored_tensor(f"{path}: tensor {name}", entry, data) for name, entry in header.items()}
    spans = sorted((*entry["data_offsets"], f"tensor {name}") for name, entry in header.items())
    position = 0
    for start, stop, name in [*spans, (len(data), len(data), "the end of the file")]:
        if start != position:
            raise Refusal(f"{path}: {name} is at {start}, but the data before it ends at {position}; no gap, overlap or tail")
        position = stop
    return tensors


def _stored_tensor(place: str, entry: object, data: memoryview) -> StoredTensor:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise Refusal(f"{place}: entry {entry!r}; exactly dtype, shape and data_offsets are wanted")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype == "Q4NX":
        raise Refusal(f"{place}: dtype Q4NX is the older (code - zero) * scale codec; repack it as q4_1 tiles in I8")
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise Refusal(f"{place}: dtype {dtype!r}; a container has {' and '.join(DTYPE_BYTES)}")
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise Refusal(f"{place}: shape {shape!r}, data_offsets {offsets!r}; whole numbers are wanted, two of them offsets")
    if not offsets[0] <= offsets[1] <= len(data):
        raise Refusal(f"{place}: data_offsets {offsets}; must be in order and within {len(data)} data bytes")
    size = math.prod(shape) * DTYPE_BYTES[dtype]
    if offsets[1] - offsets[0] != size:
        raise Refusal(f"{place}: {offsets[1] - offsets[0]} bytes, but {dtype} {shape} takes {size}")
    return StoredTensor(place, dtype, tuple(shape), data[offsets[0] : offsets[1]])


def _are_sizes(values: object) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
