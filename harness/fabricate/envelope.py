"""The safetensors envelope: a length, a JSON header, and the data. It does not know what a tensor means.

Order, padding and spacing are those of the safetensors library, so that a file here is byte for byte a file of theirs.
Reading back goes through the library itself: the writer is checked by a reader that is not its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors

from harness.fabricate.errors import FabricationError

WIDTHS = {"BF16": 2, "I8": 1}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor as it lies in the file."""

    dtype: str  # BF16 or I8
    shape: tuple[int, ...]
    content: bytes

    def __post_init__(self) -> None:
        want = math.prod(self.shape) * WIDTHS[self.dtype]
        assert len(self.content) == want, f"{len(self.content)} bytes for {self.dtype} {self.shape}, want {want}"


def encode(entries: Mapping[str, Entry], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the file: header padded right with spaces to 8 bytes, BF16 before I8, each sorted by name, no gaps."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": dict(metadata)}
    parts: list[bytes] = []
    offset = 0
    for name in stock_order(entries):
        entry = entries[name]
        end = offset + len(entry.content)
        header[name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [offset, end]}
        parts.append(entry.content)
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def stock_order(entries: Mapping[str, Entry]) -> Sequence[str]:
    """Return the names in the order of the published files: wide dtypes first, then by name."""
    return sorted(entries, key=lambda name: (-WIDTHS[entries[name].dtype], name))


def read(path: Path) -> dict[str, Entry]:
    """Read a file back with the safetensors library. Raises FabricationError naming the file."""
    try:
        found = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except (OSError, safetensors.SafetensorError) as error:
        raise FabricationError(f"{path}: {error}; fabricate it again") from error
    return {name: Entry(one["dtype"], tuple(one["shape"]), bytes(one["data"])) for name, one in found}
