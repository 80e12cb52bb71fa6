"""Whole files and JSON objects, read once and strictly. Knows no key of any of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from forward_serve.errors import Refusal

MODEL_FILE = "model.q4nx"


def read_file(path: Path) -> bytes:
    """Return the bytes of a container's file. Raises Refusal naming it."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}; a container is {MODEL_FILE}, config.json and tokenizer.json") from None


def read_object(path: Path, optional: bool = False) -> dict[str, Any]:
    """Return the object of a JSON file; {} for an optional file that is not there."""
    if optional and not path.exists():
        return {}
    return parse_object(path, read_file(path))


def parse_object(path: Path, text: bytes, unique: bool = False) -> dict[str, Any]:
    """Parse one JSON object; `unique` refuses duplicate keys, of which otherwise the last counts."""

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            names = [name for name, _ in pairs]
            raise Refusal(f"{path}: {next(name for name in names if names.count(name) > 1)} stands twice in its header")
        return dict(pairs)

    try:
        value = json.loads(text.decode(), object_pairs_hook=no_duplicates if unique else None)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refusal(f"{path}: JSON {type(value).__name__}; an object is wanted")
    return value
