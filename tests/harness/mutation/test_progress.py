from __future__ import annotations

from io import StringIO

from rich.console import Console

from harness.mutation.progress import Bar, Lines, showing
from harness.records.outcome import Outcome, ProbeResult
from tests.harness.mutation.test_matrix import result

HOSTILE = "[bold]::error::\x1b[2J"


def show(console: Console) -> str:
    with showing(console) as progress:
        progress.probe(ProbeResult("neutral", True, HOSTILE))
        progress.begin(2, 1)
        progress.finished(result(name="one", seconds=1.5))
        progress.finished(result(Outcome.SURVIVED, "two", reason=HOSTILE))
        kind = type(progress)
    assert kind is (Bar if console.is_terminal else Lines)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_plain_lines_count_and_escape() -> None:
    text = show(Console(file=StringIO(), force_terminal=False, width=60))
    assert text.splitlines() == [
        r"probe neutral: holds: [bold]::error::\x1b[2J",
        "2 mutants to run, 1 known from before",
        "[1/2] KILLED       one  (m.py:1)  1.5 s",
        r"[2/2] SURVIVED     two  (m.py:1); [bold]::error::\x1b[2J  0.0 s",
    ]


def test_a_terminal_shows_counts_and_only_the_lines_of_what_is_no_kill() -> None:
    text = show(Console(file=StringIO(), force_terminal=True, width=120, legacy_windows=False))
    assert "[2/2] SURVIVED" in text
    assert "KILLED       one" not in text
    assert "1 KILLED, 1 SURVIVED" in text
    assert "2/2" in text
    assert r"\x1b[2J" in text and "\x1b[2J" not in text
