"""What the oracle computed for a plan, kept beside the fabricated files for the next run of the same plan.

An expectation is a function of the files and of the oracle alone, so it is kept under both: the names of the fabricated recipes,
which say how each byte came about, and a digest of the oracle's sources and of numpy's version. It knows no model.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from harness.errors import FileFormatError
from harness.records import expectation
from harness.records.expectation import Expectations
from harness.records.files import read_json, write_json
from harness.records.fixture import Fixture

FOLDER = "expectations"
_HASH_DIGITS = 12


class Memory:
    """The expectations of one kind of plan on one fixture: a file, or nothing yet."""

    def __init__(self, fixture: Fixture, name: str, *, keeps: bool = True) -> None:
        """`name` tells plans apart; each has one file, of which the last is kept. `keeps`: what is written is kept at all."""
        self._folder = Path(fixture.model).parent / FOLDER
        self._name = name
        self._keeps = keeps
        self._path = self._folder / f"{name}.{digest_of(fixture)}.json"

    def read(self) -> Expectations | None:
        """Return what was computed before; None where there is nothing, or nothing that can be read."""
        with suppress(FileFormatError):
            return read_json(self._path, Expectations)
        return None

    def write(self, expectations: Expectations) -> None:
        """Keep what was computed, in place of what other sources computed. A cache that cannot be written stays as it is."""
        if not self._keeps:
            return
        with suppress(OSError):  # it costs the next run a few seconds, and this one nothing
            write_json(self._path, expectations)
            for other in self._folder.glob(f"{self._name}.*.json"):
                if other != self._path:
                    other.unlink(missing_ok=True)


def digest_of(fixture: Fixture) -> str:
    """Return the digits under which expectations are kept: everything that they follow from, but for the plan."""
    sources = [*sorted(Path(__file__).parent.glob("*.py")), Path(expectation.__file__)]
    parts = [np.__version__, *(one.recipe for one in (fixture, *fixture.companions))]
    content = [part.encode() for part in parts] + [part for one in sources for part in (one.name.encode(), one.read_bytes())]
    digest = hashlib.sha256()
    for part in content:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:_HASH_DIGITS]
