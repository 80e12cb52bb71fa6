"""A report as text for a person: the unproven checks first, then what is no kill, then the probes and one closing line."""

from __future__ import annotations

from collections.abc import Iterable

from harness.mutation.escape import log_line, one_line
from harness.mutation.matrix import ExitCode, counts, not_asked, redundant
from harness.records.outcome import MutantResult, MutationReport, Outcome

_SHOWN = 12  # lines of a red baseline


def summary(report: MutationReport, code: ExitCode) -> str:
    """Return the closing text of a run. Nothing in it can act on a terminal or a workflow's log."""
    return "\n".join(log_line(line) for line in _lines(report, code))


def result_line(result: MutantResult) -> str:
    """Return one mutant in one line: outcome, id, place, and what there is to say."""
    place = f"{result.place.file}:{result.place.line}"
    parts = [f"{result.outcome.value:<12} {result.id}  ({place})"]
    if result.outcome is not Outcome.KILLED:
        parts.append(result.reason)
    if result.also:
        parts.append(f"also {', '.join(result.also)}")
    return log_line(one_line("; ".join(part for part in parts if part)))


def score(results: Iterable[MutantResult]) -> str:
    """Return killed of all that could be killed."""
    found = counts(results)
    total = sum(found.values()) - found.get(Outcome.ACCEPTED, 0)
    return f"{found.get(Outcome.KILLED, 0)} of {total} killed by their named checks"


def _lines(report: MutationReport, code: ExitCode) -> list[str]:
    lines = [f"unproven check: {check} (no killed mutant names it as its killer)" for check in report.unproven]
    lines += [f"catalogue: {one_line(problem)}" for problem in report.problems]
    lines += [f"baseline red: {one_line(told)}" for told in report.baseline[:_SHOWN]]
    if len(report.baseline) > _SHOWN:
        lines.append(f"baseline red: and {len(report.baseline) - _SHOWN} more; outcomes.json holds all of them")
    lines += [result_line(result) for result in report.results if result.outcome is not Outcome.KILLED]
    lines += [f"redundant: {', '.join(group)}: the same checks kill the same rows" for group in redundant(report.results)]
    lines += [f"not tested: {name} ({one_line(why)})" for name, why in report.not_tested.items()]
    lines += [f"not applicable: {name} ({one_line(why)})" for name, why in report.not_applicable.items()]
    lines += [f"probe {each.id} FAILS: {one_line(each.message)}" for each in report.probes if not each.holds]
    gaps = len(not_asked(report.checks, report.results))
    if gaps:
        lines.append(f"{gaps} of {len(report.checks) * len(report.results)} cells of the matrix were not asked; --full asks them")
    if report.num_run and report.mutants_seconds:
        lines.append(_pace(report))
    found = ", ".join(f"{count} {outcome.value}" for outcome, count in counts(report.results).items()) or "nothing ran"
    held = f"{sum(each.holds for each in report.probes)} of {len(report.probes)} probes hold"
    checks = f"{len(report.unproven)} unproven checks" if report.whole else "a selection: no claim about other checks"
    lines.append(f"{code.name} ({int(code)}): {score(report.results)}; {found}; {checks}; {held}; {report.seconds:.1f} s")
    return lines


def _pace(report: MutationReport) -> str:
    """Say how fast it went: mutants alone by the clock, everything in CPU seconds."""
    per_minute = 60 * report.num_run / report.mutants_seconds
    each = report.cpu_seconds / report.num_run
    return (
        f"{report.num_run} mutants in {report.mutants_seconds:.1f} s, {per_minute:.0f} a minute; "
        f"{report.cpu_seconds:.0f} CPU s in all, the probes with them: {each:.2f} for each mutant"
    )
