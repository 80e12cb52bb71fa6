"""Reads a description's file, on top of the one that it extends: tables are joined key by key, everything else is replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import FileFormatError

EXTENDS = "extends"
MOST_LEVELS = 4


def read_extended(path: Path, find: Callable[[str], Path], level: int = 0) -> dict[str, Any]:
    """Return the content of a TOML file joined with what it extends; `find` gives the file of a name.

    Raises FileFormatError for a file that cannot be read, and for files that extend each other.
    """
    if level == MOST_LEVELS:
        raise FileFormatError(f"{path}: {EXTENDS}: more than {MOST_LEVELS} files extend each other; one of them extends itself")
    try:
        content: dict[str, Any] = msgspec.toml.decode(path.read_bytes())
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror}); give a readable file") from error
    except msgspec.DecodeError as error:
        raise FileFormatError(f"{path}: {error}") from error
    base = content.pop(EXTENDS, None)
    if base is None:
        return content
    if not isinstance(base, str):
        raise FileFormatError(f"{path}: {EXTENDS}: {base!r} is no name; give one of a shipped description, or a path")
    return joined(read_extended(find(base), find, level + 1), content)


def joined(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return two tables as one; where both have a key, tables are joined, and any other value is the second's."""
    result = dict(base)
    for key, value in over.items():
        former = result.get(key)
        result[key] = joined(former, value) if isinstance(former, dict) and isinstance(value, dict) else value
    return result
