"""An append-only record of finished mutants, one JSON object a line, that a resumed run continues after a kill at any byte."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from harness.errors import FileFormatError, UsageError
from harness.records.outcome import MutantResult


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="settings"):
    """What a run was about. A resumed run must be about the same."""

    settings: dict[str, str]


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="result"):
    """One finished mutant."""

    result: MutantResult


class Journal:
    """The open journal of a run. Use it as a context manager."""

    def __init__(self, stream: BinaryIO, done: Mapping[str, MutantResult]) -> None:
        self._stream = stream
        self.done = dict(done)  # mutant id -> its last result

    @classmethod
    def begin(cls, path: Path, settings: Mapping[str, str]) -> Journal:
        """Begin a new journal. Raises UsageError if the file is there already."""
        try:
            journal = cls(path.open("xb"), {})
        except FileExistsError as error:
            raise UsageError(f"{path}: exists already; a run never writes over another, resume it instead") from error
        journal._write(Header(dict(settings)))
        return journal

    @classmethod
    def resume(cls, path: Path, settings: Mapping[str, str]) -> Journal:
        """Continue a journal: drop a half-written last line, and give back what is done.

        Raises UsageError where the former run was about something else, FileFormatError where a whole line is broken.
        """
        whole, lines = _read(path)
        if not lines:
            with path.open("r+b") as stream:
                stream.truncate(0)
            journal = cls(path.open("ab"), {})
            journal._write(Header(dict(settings)))
            return journal
        header, *results = lines
        if not isinstance(header, Header):
            raise FileFormatError(f"{path}:1: no settings; a journal begins with them")
        _compare(path, header.settings, settings)
        with path.open("r+b") as stream:
            stream.truncate(whole)
        return cls(path.open("ab"), {line.result.id: line.result for line in results if isinstance(line, Line)})

    def append(self, result: MutantResult) -> None:
        """Write one result to the disk before returning."""
        self._write(Line(result))
        self.done[result.id] = result

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def _write(self, value: Header | Line) -> None:
        self._stream.write(msgspec.json.encode(value) + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())


def _read(path: Path) -> tuple[int, list[Header | Line]]:
    """Return how many bytes are whole lines, and those lines."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give the folder of an earlier run") from error
    whole = content.rfind(b"\n") + 1
    lines: list[Header | Line] = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            lines.append(msgspec.json.decode(line, type=Header | Line))
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise FileFormatError(f"{path}:{number}: {error}") from error
    return whole, lines


def _compare(path: Path, former: Mapping[str, str], now: Mapping[str, str]) -> None:
    for key in sorted({*former, *now}):
        if former.get(key) != now.get(key):
            raise UsageError(f"{path}: {key} was {former.get(key)!r} and is {now.get(key)!r}; begin a new run")
