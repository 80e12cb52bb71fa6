"""A report for GitHub Actions: one annotation per fault, at its line, and a job summary. Pure; mutate.py writes them."""

from __future__ import annotations

from collections.abc import Iterator

from harness.mutation.escape import command_data, command_property, markdown, one_line
from harness.mutation.matrix import ExitCode
from harness.mutation.summary import score
from harness.records.outcome import MutantResult, MutationReport, Outcome

MAX_ANNOTATIONS = 50  # a run shows no more; the summary holds all


def commands(report: MutationReport) -> list[str]:
    """Return workflow commands, one a line: unproven checks and probes first, then every mutant that is no kill."""
    found = list(_commands(report))
    if len(found) > MAX_ANNOTATIONS:
        rest = len(found) - MAX_ANNOTATIONS + 1
        found = [*found[: MAX_ANNOTATIONS - 1], _command("warning", "more", f"{rest} more; the job summary holds all of them")]
    return found


def job_summary(report: MutationReport, code: ExitCode) -> str:
    """Return the report in Markdown."""
    lines = [f"### draftproof mutate {markdown(report.subject)}: {code.name} ({int(code)})", "", markdown(score(report.results))]
    if report.unproven:
        lines += ["", "**Unproven checks:** " + ", ".join(markdown(check) for check in report.unproven)]
    told = [f"baseline red: {each}" for each in report.baseline] + [f"catalogue: {each}" for each in report.problems]
    told += [f"probe {probe.id} fails: {probe.message}" for probe in report.probes if not probe.holds]
    lines += ["", *(f"- {markdown(each)}" for each in told)] if told else []
    bad = [result for result in report.results if result.outcome is not Outcome.KILLED]
    if bad:
        lines += ["", "| outcome | mutant | place | reason |", "|---|---|---|---|", *(_row(result) for result in bad)]
    return "\n".join(lines) + "\n"


def _commands(report: MutationReport) -> Iterator[str]:
    for check in report.unproven:
        yield _command("error", "unproven check", f"{check}: no killed mutant names it as its killer")
    for told in (*report.baseline, *report.problems):
        yield _command("error", "baseline" if told in report.baseline else "catalogue", told)
    for probe in report.probes:
        if not probe.holds:
            yield _command("error", f"probe {probe.id}", probe.message)
    for result in report.results:
        if result.outcome not in (Outcome.KILLED, Outcome.ACCEPTED):
            title = f"{result.outcome.value} {result.id}"
            yield _command("error", title, f"{result.title}: {result.reason}", result.place.file, result.place.line)


def _command(level: str, title: str, message: str, file: str = "", line: int = 0) -> str:
    place = f"file={command_property(one_line(file))},line={line}," if file else ""
    return f"::{level} {place}title={command_property(one_line(title))}::{command_data(one_line(message))}"


def _row(result: MutantResult) -> str:
    place = f"{result.place.file}:{result.place.line}"
    cells = (result.outcome.value, result.id, place, result.reason)
    return "| " + " | ".join(markdown(cell) for cell in cells) + " |"
