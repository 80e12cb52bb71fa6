"""JSON and TOML at the file border: strict, atomic, and with the file and the key in every error."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.errors import FileFormatError

T = TypeVar("T")


def read_toml(path: Path, kind: type[T]) -> T:
    """Read a TOML file into `kind`. Raises FileFormatError naming file and key."""
    return _decode(path, kind, msgspec.toml.decode)


def read_json(path: Path, kind: type[T]) -> T:
    """Read a JSON file into `kind`. Raises FileFormatError naming file and key."""
    return _decode(path, kind, msgspec.json.decode)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all."""
    write_bytes(path, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: a reader never sees half of it, a kill leaves no half-written file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _decode(path: Path, kind: type[T], decode: Any) -> T:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror}); give a readable file") from error
    try:
        return decode(content, type=kind)  # type: ignore[no-any-return]
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise FileFormatError(f"{path}: {error}") from error
