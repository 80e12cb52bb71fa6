"""A fault as text: exact anchors and their replacements, applied to a source without touching any file.

An anchor must occur exactly once, so that an edit means one place or is stale; it never guesses. What the text means is not
known here.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_CANDIDATES = 3
MIN_RATIO = 0.5  # below this a line of the file is no candidate for a lost anchor, it is noise


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `find` in `file` (relative to the source root, with /). An empty `find` makes a new file."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place of the source that resembles a lost anchor."""

    line: int  # of its first line, from 1
    ratio: float  # 1.0 = equal
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """The changed characters of one edit, common beginning and end taken off; offsets into the original and the mutant."""

    begin: int
    end: int
    mutant_begin: int
    mutant_end: int


def occurrences(source: str, find: str) -> tuple[int, ...]:
    """Return the offsets at which `find` occurs, overlapping ones included; () for an empty anchor."""
    return tuple(_offsets(source, find)) if find else ()


def problem(source: str | None, edit: Edit) -> str:
    """Say in one line why the edit cannot be applied to `source` (None = no such file); "" if it can."""
    if not edit.find:
        return "" if source is None else f"{edit.file}: exists already; an edit without `find` makes a new file"
    if source is None:
        return f"{edit.file}: no such file; the anchor has nowhere to be"
    places = occurrences(source, edit.find)
    if len(places) == 1:
        return ""
    if places:
        lines = ", ".join(str(line_of(source, offset)) for offset in places)
        return f"{edit.file}: the anchor occurs {len(places)} times (lines {lines}); lengthen it until it is one place"
    shown = "; ".join(f"line {near.line} ({near.ratio:.0%}): {near.text!r}" for near in nearest(source, edit.find))
    return f"{edit.file}: the anchor is nowhere; nearest: {shown or 'nothing like it'}"


def apply(source: str | None, edits: Sequence[Edit]) -> str:
    """Return the mutated text of one file. Every edit must have no `problem`, and no two may overlap (ValueError)."""
    return _planted(source, edits)[0]


def changes(source: str, edits: Sequence[Edit]) -> tuple[Change, ...]:
    """Return what each edit changes in an existing file, in the order of their places."""
    return _planted(source, edits)[1]


def overlaps(source: str, edits: Sequence[Edit]) -> bool:
    """Say whether two edits of one file claim the same characters."""
    spans = sorted((source.index(edit.find), source.index(edit.find) + len(edit.find)) for edit in edits if edit.find)
    return any(former[1] > latter[0] for former, latter in itertools.pairwise(spans))


def line_of(source: str, offset: int) -> int:
    """Return the line number, from 1, of an offset."""
    return source.count("\n", 0, offset) + 1


def column_of(source: str, offset: int) -> int:
    """Return the column, from 1, of an offset."""
    return offset - (source.rfind("\n", 0, offset) + 1) + 1


def nearest(source: str, find: str) -> tuple[Candidate, ...]:
    """Return the places of `source` that resemble a lost anchor most, best first."""
    lines = source.splitlines()
    height = max(1, len(find.splitlines()))
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(find.strip("\n"))
    found = []
    for index in range(max(1, len(lines) - height + 1)):
        window = "\n".join(lines[index : index + height])
        matcher.set_seq1(window)
        if matcher.real_quick_ratio() >= MIN_RATIO and matcher.quick_ratio() >= MIN_RATIO:
            found.append(Candidate(index + 1, matcher.ratio(), window))
    best = sorted((each for each in found if each.ratio >= MIN_RATIO), key=lambda each: (-each.ratio, each.line))
    return tuple(best[:MAX_CANDIDATES])


def unified(file: str, original: str | None, mutant: str) -> str:
    """Return the unified diff of one file."""
    lines = difflib.unified_diff(
        (original or "").splitlines(keepends=True),
        mutant.splitlines(keepends=True),
        f"a/{file}" if original is not None else "/dev/null",
        f"b/{file}",
    )
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def _offsets(source: str, find: str) -> Iterator[int]:
    at = source.find(find)
    while at >= 0:
        yield at
        at = source.find(find, at + 1)


def _planted(source: str | None, edits: Sequence[Edit]) -> tuple[str, tuple[Change, ...]]:
    if source is None:
        return "".join(edit.replace for edit in edits), ()
    if overlaps(source, edits):
        raise ValueError(f"{edits[0].file}: two edits of one mutant overlap; join them")
    pieces: list[str] = []
    made: list[Change] = []
    done = grown = 0
    for edit in sorted(edits, key=lambda each: source.index(each.find)):
        at = source.index(edit.find)
        made.append(_trimmed(at, grown, edit))
        pieces += [source[done:at], edit.replace]
        done = at + len(edit.find)
        grown += len(edit.replace) - len(edit.find)
    pieces.append(source[done:])
    return "".join(pieces), tuple(made)


def _trimmed(at: int, grown: int, edit: Edit) -> Change:
    head = _common(edit.find, edit.replace)
    tail = _common(edit.find[head:][::-1], edit.replace[head:][::-1])
    begin, end = at + head, at + len(edit.find) - tail
    return Change(begin, end, begin + grown, at + grown + len(edit.replace) - tail)


def _common(left: str, right: str) -> int:
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))
