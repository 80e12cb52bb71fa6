"""The folder of one run: logs and diffs as they come, the journal, and the closing files. A folder is never written twice."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.checks.replays import named
from harness.errors import UsageError
from harness.mutation.bench import Finished
from harness.records.files import write_bytes, write_json
from harness.records.outcome import ProbeResult

OUTCOMES = "outcomes.json"
JOURNAL = "journal.jsonl"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run leaves what it found."""

    path: Path

    @property
    def journal(self) -> Path:
        """The append-only record that a resumed run continues."""
        return self.path / JOURNAL

    def save(self, finished: Finished) -> None:
        """Write one mutant's log and diff, and what repeats its findings where they were not as expected."""
        write_bytes(self.path / "logs" / f"{finished.result.id}.log", finished.log.encode("utf-8", "backslashreplace"))
        write_bytes(self.path / "diffs" / f"{finished.result.id}.diff", finished.diff.encode("utf-8", "backslashreplace"))

        for name, replay in named(finished.replays).items():
            write_json(self.path / "replays" / finished.result.id / name, replay)

    def save_probe(self, probe: ProbeResult) -> None:
        """Write what a probe saw."""
        text = f"{probe.id}: {'holds' if probe.holds else 'fails'}: {probe.message}\n{probe.log}".rstrip("\n") + "\n"
        write_bytes(self.path / "logs" / f"probe-{probe.id}.log", text.encode("utf-8", "backslashreplace"))

    def close(self, outcomes: dict[str, Any], junit: bytes, summary: str) -> None:
        """Write the closing files; outcomes.json last, so that its presence says that the run is whole."""
        write_bytes(self.path / "junit.xml", junit)
        write_bytes(self.path / "summary.txt", (summary + "\n").encode("utf-8", "backslashreplace"))
        write_json(self.path / OUTCOMES, outcomes)


def new_folder(reports: Path, subject: str, now: datetime.datetime, kind: str = "mutate") -> RunFolder:
    """Make a folder that nobody has: reports/<kind>-<subject>-<UTC time>, with a number where two runs share a second."""
    stem = f"{kind}-{subject}-{now.astimezone(datetime.UTC):%Y%m%dT%H%M%SZ}"
    reports.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = reports / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return RunFolder(path)


def former_folder(path: Path) -> RunFolder:
    """Return the folder of a run that was cut short. Raises UsageError for anything else."""
    folder = RunFolder(path)
    if not folder.journal.is_file():
        raise UsageError(f"--resume {path}: holds no {JOURNAL}; give the folder of a run that was cut short")
    if (path / OUTCOMES).exists():
        raise UsageError(f"--resume {path}: that run is whole ({OUTCOMES} is there); begin a new one")
    return folder
