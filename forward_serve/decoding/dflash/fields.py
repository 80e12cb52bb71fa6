"""Typed reading of a JSON object, with refusals that name file, key, value, rule and fix. Knows no particular key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forward_serve.errors import Refusal


class Fields:
    """One JSON object of a file. A key with null is absent."""

    def __init__(self, path: Path, values: Mapping[str, Any], prefix: str = "") -> None:
        self._path = path
        self._values = values
        self._prefix = prefix  # of the names in messages: "dflash_config."

    def keys(self) -> set[str]:
        """All keys, also those with null."""
        return set(self._values)

    def get(self, key: str) -> Any:
        """The value as it stands in the file; None where it is absent."""
        return self._values.get(key)

    def is_absent(self, key: str) -> bool:
        """Whether the key is missing or null."""
        return self._values.get(key) is None

    def refusal(self, key: str, rule: str, fix: str) -> Refusal:
        """Return the error for this key; the caller raises it."""
        seen = repr(self._values[key]) if key in self._values else "absent"
        return Refusal(f"{self._path}: {self._prefix}{key}={seen} {rule}; {fix}")

    def section(self, key: str) -> Fields:
        """The object under this key; an empty one where it is absent."""
        value = self._values.get(key)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.refusal(key, "is not an object", "correct the file")
        return Fields(self._path, value, f"{self._prefix}{key}.")

    def with_first(self, first: Fields) -> Fields:
        """These fields with those of `first` in front; names in messages are as here."""
        given = {key: value for key, value in first._values.items() if value is not None}
        return Fields(self._path, {**self._values, **given}, self._prefix)

    def integer(self, key: str, minimum: int, default: int | None = None) -> int:
        """A whole number of at least `minimum`; required where there is no default."""
        if self.is_absent(key) and default is not None:
            return default
        value = self.get(key)
        if type(value) is not int or value < minimum:
            raise self.refusal(key, f"is not a whole number of at least {minimum}", "correct the file")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number; required where there is no default."""
        if self.is_absent(key) and default is not None:
            return default
        value = self.get(key)
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self.refusal(key, "is not a finite number", "correct the file")
        return float(value)

    def positive(self, key: str, default: float | None = None) -> float:
        """A finite number above 0; required where there is no default."""
        value = self.number(key, default)
        if value <= 0:
            raise self.refusal(key, "is not above 0", "correct the file")
        return value
