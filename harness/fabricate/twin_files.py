"""The files of a twin: those that an edit changed, and the rest shared with the original. It knows no edit by name.

A twin is made on demand in the cache, beside its original; files that do not change are hard links.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.fabricate.store import make_once
from harness.fabricate.tokenizer import json_bytes
from harness.records.files import write_bytes
from harness.records.fixture import Fixture


class Changes:
    """What differs from the original in the directory of a twin."""

    def __init__(self, original: Path) -> None:
        self.original = original
        self.contents: dict[str, bytes] = {}
        self._dropped: set[str] = set()

    def read(self, file: str) -> bytes:
        """Return a file as it will be."""
        return self.contents.get(file) or (self.original / file).read_bytes()

    def edit(self, file: str, edit: Callable[[dict[str, Any]], object]) -> None:
        """Edit a file that holds one JSON object."""
        content = json.loads(self.read(file))
        edit(content)
        self.contents[file] = json_bytes(content)

    def drop(self, file: str) -> None:
        """Leave out a file of the original."""
        self._dropped.add(file)

    def write(self, directory: Path) -> None:
        """Write the twin's files into an empty directory."""
        files = {path.name for path in self.original.iterdir()} - self._dropped
        for file in sorted(files | self.contents.keys()):
            if file in self.contents:
                write_bytes(directory / file, self.contents[file])
            else:
                _link(self.original / file, directory / file)


Numbers = Sequence[int]
Edit = Callable[[Changes, Numbers], None]


@dataclass(frozen=True, slots=True)
class Edits:
    """The edits of one kind of twin, by suffix; one that takes numbers ends with `=`."""

    kind: str  # of the directory in the cache: models, packs
    by_suffix: Mapping[str, Edit]
    lists: tuple[str, ...] = ()  # suffixes that take several numbers, with dots between
    last: tuple[str, ...] = ()  # suffixes that nothing may follow: formats

    def parse(self, name: str, suffix: str) -> tuple[Edit, Numbers]:
        """Return the edit that a suffix of a name asks for, with its numbers. Raises UsageError where there is none."""
        key, equals, text = suffix.partition("=")
        wanted = key + equals
        if wanted not in self.by_suffix:
            raise UsageError(f"{name!r}: no twin has the suffix {suffix!r}; use {', '.join(sorted(self.by_suffix))}")
        if suffix in self.last and not name.endswith(f"+{suffix}"):
            raise UsageError(f"{name!r}: {suffix!r} is a format; write it last")
        numbers = text.split(".") if equals else []
        if not all(number.isdecimal() for number in numbers) or (len(numbers) > 1 and wanted not in self.lists):
            example = "5.17" if wanted in self.lists else "28"
            raise UsageError(f"{name!r}: {text!r} does not fit; write {wanted}{example}")
        return self.by_suffix[wanted], [int(number) for number in numbers]


def make_twin(fixture: Fixture, name: str, originals: Mapping[str, str], edits: Edits) -> Path:
    """Return the directory of an original or of a twin of one, made if it is not there. Raises UsageError on any other name."""
    base, *suffixes = name.split("+")
    if base not in originals:
        raise UsageError(f"{name!r}: {base!r} was not fabricated; use {' or '.join(originals)}")
    planned = [edits.parse(name, suffix) for suffix in suffixes]
    original = Path(originals[base])
    if not original.is_dir():
        raise UsageError(f"{name!r}: {original} is gone from the cache; fabricate the recipe again")
    if not planned:
        return original
    entry = Path(fixture.model).parent
    target = entry / "twins" / edits.kind / name
    make_once(entry.parent, target, lambda directory: _make(original, directory, planned))
    return target


def _make(original: Path, directory: Path, planned: Sequence[tuple[Edit, Numbers]]) -> None:
    changes = Changes(original)
    for edit, numbers in planned:
        edit(changes, numbers)
    changes.write(directory)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)
