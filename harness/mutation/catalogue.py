"""The catalogue of faults as data: TOML entries, one family a file, under mutants/<subject>/. Strict; loads all or says why not.

It knows what an entry may say, not whether its anchor is still there (lint.py) nor what becomes of it (runner.py).
"""

from __future__ import annotations

import datetime
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import FileFormatError
from harness.mutation import patch
from harness.mutation.edits import Edit
from harness.mutation.entry import Acceptance, Entry, Mutant, faults_of

RELAY = "relay"  # the folder of the relay's faults, which are for every subject
ACCEPTED_FILE = "accepted.toml"
SOURCE_FILE = "source.toml"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All mutants of one subject, in the order of their files, and the accepted baseline."""

    subject: str
    mutants: tuple[Mutant, ...]
    accepted: tuple[Acceptance, ...] = ()

    def acceptance(self, mutant_id: str, today: datetime.date) -> Acceptance | None:
        """Return the acceptance of a mutant that is in force on this day."""
        for each in self.accepted:
            if each.id == mutant_id and each.expires >= today:
                return each
        return None

    def problems(self, today: datetime.date) -> tuple[str, ...]:
        """Name the acceptances that have expired or whose mutant does not exist."""
        known = {mutant.id for mutant in self.mutants}
        place = f"mutants/{self.subject}/{ACCEPTED_FILE}"
        expired = [
            f"{place}: {each.id!r} expired on {each.expires}; kill it, or look again and give a new date"
            for each in self.accepted
            if each.expires < today
        ]
        unknown = [f"{place}: {each.id!r} is no mutant; remove it" for each in self.accepted if each.id not in known]
        return tuple(expired + unknown)


def load_catalogue(folder: Path) -> Catalogue:
    """Read every family under mutants/<subject>/. Raises one FileFormatError with a line per fault: file, entry, key, rule."""
    if not folder.is_dir():
        raise FileFormatError(f"{folder}: no such folder; a subject's catalogue is mutants/<subject>/<family>.toml")
    faults: list[str] = []
    mutants: list[Mutant] = []
    for path in sorted(folder.glob("*.toml")):
        if path.name not in (ACCEPTED_FILE, SOURCE_FILE):
            mutants += _family(path, faults)
    accepted = _accepted(folder / ACCEPTED_FILE, faults)
    for key, names in (("id", [each.id for each in mutants]), ("accepted", [each.id for each in accepted])):
        faults += [f"{folder}: {key} {name!r} is used twice" for name in sorted({n for n in names if names.count(n) > 1})]
    if faults:
        raise FileFormatError("\n".join(faults))
    return Catalogue(folder.name, tuple(mutants), tuple(accepted))


def load_forced_fail(folder: Path) -> tuple[Edit, ...]:
    """Read probes/forced-fail.toml: the edits that make a subject lie; () where a catalogue has none. Raises FileFormatError."""
    path = folder / "probes" / "forced-fail.toml"
    if not path.exists():
        return ()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path}: {error}") from error
    unknown = sorted(set(table) - {"title", "edits", "patch"})
    if unknown:
        raise FileFormatError(f"{path}: unknown key {unknown[0]!r}; a probe has title and edits, or patch")
    return read_edits(table, path.parent, str(path))


def read_edits(table: dict[str, Any], folder: Path, place: str) -> tuple[Edit, ...]:
    """Return the edits of one table with `file`/`find`/`replace`, `edits` or `patch`. Raises FileFormatError."""
    if table.get("patch"):
        path = folder / str(table["patch"])
        try:
            return patch.parse(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise FileFormatError(f"{place}: patch: {path} cannot be read ({error.strerror})") from error
    rows = table.get("edits") or [{key: table[key] for key in ("file", "find", "replace") if table.get(key) is not None}]
    return tuple(_edit(row, f"{place}: edits[{index}]") for index, row in enumerate(rows))


def _edit(row: dict[str, str], place: str) -> Edit:
    if set(row) - {"file", "find", "replace"} or not {"file", "replace"} <= set(row):
        raise FileFormatError(f"{place}: has {sorted(row)}; an edit has file, find and replace (no find: a new file)")
    return Edit(patch.relative(row["file"], f"{place}: file"), row.get("find", ""), row["replace"])


def _family(path: Path, faults: list[str]) -> list[Mutant]:
    tables = _tables(path, "mutant", faults)
    mutants = []
    for index, table in enumerate(tables):
        name = table.get("id", f"number {index + 1}") if isinstance(table, dict) else f"number {index + 1}"
        place = f"{path}: mutant {name!r}"
        try:
            entry = msgspec.convert(table, Entry)
            faults += [f"{place}: {fault}" for fault in faults_of(entry)]
            edits = () if entry.env or entry.relay else read_edits(table, path.parent, place)
            mutants.append(Mutant(entry, path.stem, edits))
        except msgspec.ValidationError as error:
            faults.append(f"{place}: {error}")
        except FileFormatError as error:
            faults.append(str(error))
    return mutants


def _accepted(path: Path, faults: list[str]) -> list[Acceptance]:
    accepted = []
    for index, table in enumerate(_tables(path, "accepted", faults) if path.exists() else []):
        try:
            accepted.append(msgspec.convert(table, Acceptance))
        except msgspec.ValidationError as error:
            name = table.get("id", f"number {index + 1}") if isinstance(table, dict) else f"number {index + 1}"
            faults.append(f"{path}: accepted {name!r}: {error}")
    faults += [f"{path}: accepted {each.id!r}: reason: is empty" for each in accepted if not each.reason.strip()]
    return accepted


def _tables(path: Path, key: str, faults: list[str]) -> list[Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        faults.append(f"{path}: {error}")
        return []
    for other in sorted(set(content) - {key}):
        faults.append(f"{path}: unknown key {other!r}; a family holds [[{key}]] tables alone")
    tables = content.get(key, [])
    if not isinstance(tables, list) or not tables:
        faults.append(f"{path}: no [[{key}]] table; write one or remove the file")
        return []
    return tables
