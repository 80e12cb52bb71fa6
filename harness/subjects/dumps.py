"""The files of logits that an arm leaves in its scratch folder, one for each answer. Read strictly; it judges no value.

The name holds the response's id, which a subject is free to choose: one that could name another place is refused.
"""

from __future__ import annotations

import hashlib
import io
import re
import tokenize
from pathlib import Path

import numpy as np

from harness.records.recording import Dump

MAX_BYTES = 64 << 20


class DumpError(ValueError):
    """A file that is not what it should be; the text says where and why."""


def read_dump(folder: Path, name: str, response_id: str) -> Dump | None:
    """Read the file that `name` ("{id}.npy") stands for; None if there is none. Raises DumpError."""
    if not re.fullmatch(r"[\w-]+", response_id):
        raise DumpError(f"dump: id={response_id!r} is no part of a file name")
    path = folder / name.replace("{id}", response_id)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DumpError(f"dump: {path.name} cannot be read ({error.strerror})") from error
    if len(content) > MAX_BYTES:
        raise DumpError(f"dump: {path.name} is over {MAX_BYTES >> 20} MiB")
    return _parse(path.name, content)


def _parse(name: str, content: bytes) -> Dump:
    stream = io.BytesIO(content)
    try:
        rows = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, SyntaxError, EOFError, OverflowError, MemoryError, tokenize.TokenError) as error:
        raise DumpError(f"dump: {name} is no array: {error}") from error
    if stream.read(1):
        raise DumpError(f"dump: {name} goes on behind its array")
    return Dump(hashlib.sha256(content).hexdigest(), rows.dtype.str, rows.shape, rows.tobytes())
