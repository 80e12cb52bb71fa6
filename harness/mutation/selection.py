"""Which mutants of a catalogue a run is about: by name, by killer, or by the lines that a diff touches."""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.mutation.entry import Mutant
from harness.mutation.lint import ReadSource
from harness.mutation.planted import anchor_lines

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


def by_name(mutants: Sequence[Mutant], only: Collection[str]) -> tuple[Mutant, ...]:
    """Return the mutants of these ids. Raises UsageError for an id that does not exist."""
    known = [mutant.id for mutant in mutants]
    for name in only:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or known[:3]
            raise UsageError(f"--only {name}: no such mutant; did you mean {', '.join(near) or 'nothing: there are none'}?")
    return tuple(mutant for mutant in mutants if mutant.id in only)


def by_killer(mutants: Sequence[Mutant], checks: Collection[str]) -> tuple[Mutant, ...]:
    """Return the mutants that name one of these killers. Raises UsageError for a check that is nobody's killer."""
    killers = {killer for mutant in mutants for killer in mutant.entry.killers}
    for name in checks:
        if name not in killers:
            raise UsageError(f"--check {name}: the killer of no mutant; use one of {', '.join(sorted(killers))}")
    return tuple(mutant for mutant in mutants if set(mutant.entry.killers) & set(checks))


def by_lines(mutants: Sequence[Mutant], read: ReadSource, touched: Mapping[str, Sequence[range]]) -> tuple[Mutant, ...]:
    """Return the mutants whose anchors lie on touched lines, and those of touched files whose anchor is lost."""
    return tuple(mutant for mutant in mutants if _is_touched(mutant, read, touched))


def touched_lines(root: Path, revision: str, packages: Sequence[str]) -> dict[str, list[range]]:
    """Return the lines, from 1, of the working tree that differ from a revision. Raises UsageError where git does not know it."""
    command = ["git", "-C", str(root), "diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-renames", "--relative"]
    try:
        done = subprocess.run([*command, revision, "--", *packages], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--in-diff {revision}: git cannot be run ({error})") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
        raise UsageError(f"--in-diff {revision}: git says {said[0] if said else 'nothing'!r}; give a revision of {root}")
    return read_diff(done.stdout.decode("utf-8", "replace"))


def read_diff(text: str) -> dict[str, list[range]]:
    """Return the lines, from 1, of the new side that a `--unified=0` diff touches; a deletion touches both its neighbours."""
    touched: dict[str, list[range]] = {}
    file = ""
    for line in text.split("\n"):
        hunk = _HUNK.match(line)
        if line.startswith("+++ "):
            file = line[4:].partition("\t")[0].removeprefix("b/")
        elif hunk is not None and file:
            first, count = int(hunk[1]), int(hunk[2] or 1)
            touched.setdefault(file, []).append(range(first, first + count) if count else range(first, first + 2))
    return touched


def _is_touched(mutant: Mutant, read: ReadSource, touched: Mapping[str, Sequence[range]]) -> bool:
    lines = anchor_lines(mutant, read)
    for file in {edit.file for edit in mutant.edits}:
        if file not in lines and file in touched:
            return True
        if any(_meet(lines[file], span) for span in touched.get(file, ()) if file in lines):
            return True
    return False


def _meet(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop
