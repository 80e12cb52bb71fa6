"""What a mutant changes, for a person and for a report: its diff and its place. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from harness.mutation.catalogue import RELAY
from harness.mutation.edits import changes, column_of, line_of, occurrences, unified
from harness.mutation.entry import Mutant
from harness.mutation.lint import ReadSource, plant
from harness.records.outcome import Place


def diff_of(mutant: Mutant, read: ReadSource) -> str:
    """Return the unified diff of a mutant that can be planted, or its environment."""
    if mutant.entry.relay:
        return "".join(f"{name} = {value!r}\n" for name, value in mutant.entry.relay.items())
    if mutant.entry.env:
        return "".join(f"{name}={value}\n" for name, value in mutant.entry.env.items())
    return "".join(unified(file, read(file), text) for file, text in plant(mutant.edits, read).items())


def place_of(mutant: Mutant, read: ReadSource) -> Place:
    """Return where the first edit changes its file; the file's beginning where the anchor is lost."""
    if mutant.entry.relay:
        told = " ".join(f"{name}={value}" for name, value in mutant.entry.relay.items())
        return Place(f"mutants/{RELAY}/{mutant.family}.toml", replacement=told)
    if not mutant.edits:
        return Place("(environment)", replacement=" ".join(f"{name}={value}" for name, value in mutant.entry.env.items()))
    edit = mutant.edits[0]
    source = read(edit.file)
    if source is None or len(occurrences(source, edit.find)) != 1:
        return Place(edit.file, replacement=edit.replace)
    (change,) = changes(source, [edit])
    end = max(change.end, change.begin + 1)
    return Place(
        file=edit.file,
        line=line_of(source, change.begin),
        column=column_of(source, change.begin),
        end_line=line_of(source, end),
        end_column=column_of(source, end),
        replacement=edit.replace,
    )


def anchor_lines(mutant: Mutant, read: ReadSource) -> dict[str, range]:
    """Return the lines, from 1, of each file that the mutant's anchors cover; of several anchors the span of all."""
    spans: dict[str, range] = {}
    for edit in mutant.edits:
        source = read(edit.file)
        if source is None or len(occurrences(source, edit.find)) != 1:
            continue
        begin = source.index(edit.find)
        first, last = line_of(source, begin), line_of(source, begin + len(edit.find.rstrip("\n")))
        known = spans.get(edit.file, range(first, last + 1))
        spans[edit.file] = range(min(first, known.start), max(last + 1, known.stop))
    return spans


def fingerprint(mutant: Mutant, parts: Iterable[str]) -> str:
    """Return a digest of an entry and of everything else that its outcome hangs on."""
    return hashlib.sha256("\0".join((mutant.fingerprint, *parts)).encode()).hexdigest()[:16]
