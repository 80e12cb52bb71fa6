"""How a run shows that it lives: a bar with counts and time left on a terminal, one plain line per mutant everywhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from harness.mutation.escape import log_line, one_line
from harness.mutation.summary import result_line
from harness.records.outcome import MutantResult, Outcome, ProbeResult


class Show(Protocol):
    """Told what happens, from one thread."""

    def probe(self, result: ProbeResult) -> None:
        """A probe was made."""

    def begin(self, num_mutants: int, num_known: int) -> None:
        """So many mutants will be run, so many are known from an earlier run."""

    def finished(self, result: MutantResult) -> None:
        """A mutant is decided."""


@contextmanager
def showing(console: Console) -> Iterator[Show]:
    """Show progress on a console, as a bar where it is a terminal."""
    if not console.is_terminal:
        yield Lines(console)
        return
    with Bar(console) as bar:
        yield bar


class Lines:
    """One line per probe and mutant."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = self._done = 0

    def probe(self, result: ProbeResult) -> None:
        """Print how a probe went."""
        self._print(f"probe {result.id}: {'holds' if result.holds else 'FAILS'}: {one_line(result.message)}")

    def begin(self, num_mutants: int, num_known: int) -> None:
        """Print what is ahead."""
        self._total = num_mutants
        self._print(f"{num_mutants} mutants to run" + (f", {num_known} known from before" if num_known else ""))

    def finished(self, result: MutantResult) -> None:
        """Print a mutant, numbered once the count is known."""
        self._done += 1 if self._total else 0
        if self._is_shown(result):
            counted = f"[{self._done}/{self._total}] " if self._total else ""
            self._print(f"{counted}{result_line(result)}  {result.seconds:.1f} s")

    def _is_shown(self, _result: MutantResult) -> bool:
        return True

    def _print(self, text: str) -> None:
        self._console.print(Text(log_line(text)), soft_wrap=True, highlight=False)


class Bar(Lines):
    """A bar below the lines of whatever is no kill."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._counts: Counter[Outcome] = Counter()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("probes", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._progress.stop()

    def probe(self, result: ProbeResult) -> None:
        """Print a probe only if it fails."""
        if not result.holds:
            super().probe(result)

    def begin(self, num_mutants: int, num_known: int) -> None:
        """Set the bar to what is ahead."""
        super().begin(num_mutants, num_known)
        self._progress.update(self._task, description="mutants", total=num_mutants, completed=0)

    def finished(self, result: MutantResult) -> None:
        """Advance; print the mutant only if it is no kill."""
        super().finished(result)
        self._counts[result.outcome] += 1
        told = ", ".join(f"{self._counts[outcome]} {outcome.value}" for outcome in Outcome if self._counts[outcome])
        self._progress.update(self._task, advance=1, description=told)

    def _is_shown(self, result: MutantResult) -> bool:
        return result.outcome is not Outcome.KILLED
