"""A unified diff as exact edits: each hunk's old side is an anchor that must occur once, whatever its line numbers say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness.errors import FileFormatError
from harness.mutation.edits import Edit

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_REFUSED = ("rename ", "Binary ", "GIT binary", "deleted ", "copy ", "+++ /dev/null")


def parse(text: str, place: str) -> tuple[Edit, ...]:
    """Return one edit per hunk. Raises FileFormatError, naming `place` and line, for what this tool does not plant."""
    reader = _Reader(place)
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        reader.take(number, line)
    return reader.finish()


@dataclass(slots=True)
class _Reader:
    """Reads a diff line by line; counts say where a hunk ends, so that its text may look like anything."""

    place: str
    edits: list[Edit] = field(default_factory=list)
    file: str = ""
    is_new: bool = False
    num_old: int = 0  # lines still to come on each side
    num_new: int = 0
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    last: str = ""

    def take(self, number: int, line: str) -> None:
        if self.num_old or self.num_new:
            self._inside(number, line)
        elif line.startswith("\\"):
            self._no_newline()
        else:
            self._close()
            self._between(number, line)

    def finish(self) -> tuple[Edit, ...]:
        if self.num_old or self.num_new:
            raise FileFormatError(f"{self.place}: the last hunk is cut; its header promises more lines")
        self._close()
        if not self.edits:
            raise FileFormatError(f"{self.place}: no hunk; give a unified diff")
        return tuple(self.edits)

    def _inside(self, number: int, line: str) -> None:
        mark = line[:1] or " "
        if mark == "\\":
            self._no_newline()
            return
        if mark not in " +-":
            raise FileFormatError(f"{self.place}:{number}: {line!r} is no line of a hunk; it begins with ' ', '+' or '-'")
        if mark != "+":
            self.old.append(line[1:] + "\n")
            self.num_old -= 1
        if mark != "-":
            self.new.append(line[1:] + "\n")
            self.num_new -= 1
        self.last = mark

    def _between(self, number: int, line: str) -> None:
        hunk = _HUNK.match(line)
        if line.startswith(_REFUSED):
            raise FileFormatError(f"{self.place}:{number}: {line!r}: a mutant edits text or adds a file, nothing else")
        if line.startswith("--- "):
            self.is_new = line.partition("\t")[0] == "--- /dev/null"
        elif line.startswith("+++ "):
            self.file = relative(line[4:].partition("\t")[0].removeprefix("b/"), f"{self.place}:{number}")
        elif hunk is not None:
            if not self.file:
                raise FileFormatError(f"{self.place}:{number}: a hunk before its `+++` line; give a unified diff")
            self.num_old, self.num_new = (int(count or 1) for count in hunk.groups())

    def _no_newline(self) -> None:
        for mark, side in (("-", self.old), ("+", self.new)):
            if side and self.last in (" ", mark):
                side[-1] = side[-1].removesuffix("\n")

    def _close(self) -> None:
        if self.old or self.new:
            self.edits.append(Edit(self.file, "" if self.is_new else "".join(self.old), "".join(self.new)))
        self.old, self.new = [], []


def relative(name: str, where: str) -> str:
    """Return a file name that stays below the source root. Raises FileFormatError."""
    if not name or name.startswith("/") or ".." in name.split("/") or "\\" in name:
        raise FileFormatError(f"{where}: {name!r} is no path below the source root; give one, with /")
    return name
