"""The kill matrix: mutants by checks, what it leaves unproven, and the exit code of the run. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence

from harness.records.outcome import MutantResult, MutationReport, Outcome


class Cell(enum.StrEnum):
    """What one check said of one mutant."""

    FAILED = "failed"
    PASSED = "passed"
    NOT_ASKED = "not asked"


class ExitCode(enum.IntEnum):
    """How a mutation run ends. Where several hold: 4, 5, 2, 3 in this order."""

    PROVEN = 0  # every mutant killed or accepted, every check proven, the probes hold
    USAGE = 1
    UNPROVEN = 2  # a survivor, a wrong killer, a fault that was not reached or killed the subject; a check without a kill
    UNDECIDED = 3  # only timeouts or flaky mutants
    BASELINE_RED = 4  # clean runs have findings, or a probe of the machinery fails
    CATALOGUE = 5  # stale, unviable or no start; an acceptance expired
    NOTHING_RAN = 6
    INTERNAL = 70


_CODES: Mapping[Outcome, ExitCode] = {
    Outcome.STALE: ExitCode.CATALOGUE,
    Outcome.UNVIABLE: ExitCode.CATALOGUE,
    Outcome.NO_START: ExitCode.CATALOGUE,
    Outcome.SURVIVED: ExitCode.UNPROVEN,
    Outcome.WRONG_KILLER: ExitCode.UNPROVEN,
    Outcome.NOT_REACHED: ExitCode.UNPROVEN,
    Outcome.DIED: ExitCode.UNPROVEN,
    Outcome.TIMEOUT: ExitCode.UNDECIDED,
    Outcome.FLAKY: ExitCode.UNDECIDED,
    Outcome.KILLED: ExitCode.PROVEN,
    Outcome.ACCEPTED: ExitCode.PROVEN,
}
_PRECEDENCE = (ExitCode.BASELINE_RED, ExitCode.CATALOGUE, ExitCode.UNPROVEN, ExitCode.UNDECIDED)


def cell(result: MutantResult, check: str) -> Cell:
    """Return one cell of the matrix."""
    if check in result.failed:
        return Cell.FAILED
    return Cell.PASSED if check in result.passed else Cell.NOT_ASKED


def unproven(checks: Iterable[str], results: Iterable[MutantResult]) -> tuple[str, ...]:
    """Return the checks that are the killer of no killed mutant, in their order. A check that merely failed too is not proven."""
    proven = {killer for result in results if result.outcome is Outcome.KILLED for killer in result.killers}
    return tuple(check for check in checks if check not in proven)


def redundant(results: Iterable[MutantResult]) -> tuple[tuple[str, ...], ...]:
    """Return groups of killed mutants of one file and kind that the same checks kill: they prove one thing twice."""
    groups: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for result in results:
        if result.outcome is Outcome.KILLED:
            key = result.place.file, result.kind, tuple(sorted(result.killers)), tuple(sorted(result.failed))
            groups.setdefault(key, []).append(result.id)
    return tuple(tuple(ids) for ids in groups.values() if len(ids) > 1)


def not_asked(checks: Sequence[str], results: Iterable[MutantResult]) -> tuple[tuple[str, str], ...]:
    """Return the gaps of the matrix: (mutant, check) pairs of which nothing is known."""
    return tuple((result.id, check) for result in results for check in checks if cell(result, check) is Cell.NOT_ASKED)


def wrong_killers(results: Iterable[MutantResult]) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    """Return (mutant, silent killers, checks that failed instead) of every wrong killer."""
    return tuple((result.id, result.missing, result.failed) for result in results if result.outcome is Outcome.WRONG_KILLER)


def exit_code(report: MutationReport) -> ExitCode:
    """Return how the run ends."""
    codes = {_CODES[result.outcome] for result in report.results}
    if report.baseline or any(not probe.holds and not probe.unproven and not probe.stale for probe in report.probes):
        codes.add(ExitCode.BASELINE_RED)
    if report.problems or any(probe.stale for probe in report.probes):
        codes.add(ExitCode.CATALOGUE)
    if report.unproven or any(probe.unproven for probe in report.probes):
        codes.add(ExitCode.UNPROVEN)
    for code in _PRECEDENCE:
        if code in codes:
            return code
    return ExitCode.PROVEN if report.results else ExitCode.NOTHING_RAN


def counts(results: Iterable[MutantResult]) -> dict[Outcome, int]:
    """Return how many mutants came to each outcome, in the order of the outcomes; those that none came to are left out."""
    outcomes = [result.outcome for result in results]
    return {outcome: outcomes.count(outcome) for outcome in Outcome if outcome in outcomes}
