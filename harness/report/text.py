"""A judgement as text: the short table, and findings that a person can act on. Everything a subject said is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.records.finding import Finding, Judgement
from harness.records.plan import Plan
from harness.records.recording import REAL_DEVICE, Recording, Run
from harness.report.divergence import divergence_lines
from harness.report.escape import printable
from harness.report.known import known_lines

MAX_VALUE = 160  # characters of a want or got that are shown


def gate_table(run: Run, judgement: Judgement) -> str:
    """Return the closing table: a line per start with requests, engaged, drafted, accepted, watched opens, submits, seconds."""
    rows: list[tuple[str, ...]] = [("start", "requests", "engaged", "drafted", "accepted", "opens", "submits", "seconds")]
    rows += [_row(recording) for recording in run.recordings]
    rows.append(_total(rows[1:], run.seconds))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(_aligned(row, widths)).rstrip() for row in rows]
    lines.insert(1, "-" * len(lines[0]))
    examined = sum(count for result in judgement.results for count in result.examined.values())
    lines.append("")
    lines.append(
        f"{judgement.verdict.value}: {len(judgement.results)} checks examined {examined} answers of {rows[-1][1]} requests, "
        f"{len(judgement.counted)} findings; recipe {run.plan.recipe}{_drawn_by(run.plan)}"
    )
    lines += [printable(line) for line in known_lines(run, judgement)]
    lines += [printable(f"{result.check}: {note}") for result in judgement.results for note in result.notes]
    lines += _devices(run.recordings)
    if run.remembers:
        lines.append("expectations: computed before, by this oracle from the same files")
    lines += [f"lost on this machine: {printable(loss)}" for loss in run.losses]
    lines += [f"not tested: {what} ({why})" for what, why in judgement.not_tested.items()]
    return "\n".join(lines)


def findings_text(findings: Sequence[Finding], most: int = 10) -> str:
    """Return findings for a person: where, what, want, got, where the reply left the right one, and the command that repeats it."""
    lines: list[str] = []
    for finding in findings[:most]:
        place = f"{finding.start}: {finding.request}" if finding.request else finding.start or "the run"
        lines.append(f"{finding.check} [{finding.verdict.value}] at {printable(place)}")
        lines.append(f"  {printable(finding.message)}")
        lines += [f"  {line}" for line in _difference(finding)]
        if finding.repeat:
            lines.append(f"  repeat: {finding.repeat}")
    if len(findings) > most:
        lines.append(f"and {len(findings) - most} more findings")
    return "\n".join(lines)


def _difference(finding: Finding) -> Iterator[str]:
    """Yield what was wanted and got: of a reply the place at which it left the right one, of anything else both values."""
    if finding.divergence is not None:
        yield from divergence_lines(finding.divergence)
        return
    if finding.first_difference is not None:
        yield f"first difference at index {finding.first_difference}"
    if finding.want is not None or finding.got is not None:
        yield f"want {printable(_around(finding.want, finding.first_difference))}"
        yield f"got  {printable(_around(finding.got, finding.first_difference))}"


def _around(value: Any, index: int | None) -> str:
    """Show a value, cut to the neighbourhood of the first difference where it is long."""
    if index is not None and isinstance(value, list | tuple | str) and len(value) > 24:
        begin = max(0, index - 4)
        return f"[{begin}:] {value[begin : begin + 16]!r} of {len(value)}"
    shown = repr(value)
    return shown if len(shown) <= MAX_VALUE else f"{shown[:MAX_VALUE]}... ({len(shown)} characters)"


def _drawn_by(plan: Plan) -> str:
    return "" if plan.shuffle is None else f"; shuffle {plan.shuffle}"


def _row(recording: Recording) -> tuple[str, ...]:
    counts = [answer.counts for answer in recording.answers if answer.counts is not None]
    return (
        recording.start.id,
        str(len(recording.answers)),
        str(sum(one.path == "spec" for one in counts)),
        str(sum(one.drafted for one in counts)),
        str(sum(one.accepted for one in counts)),
        *_traced(recording),
        f"{recording.seconds:.2f}",
    )


def _traced(recording: Recording) -> tuple[str, str]:
    """Return the opens of watched paths, failed ones too, and the submits."""
    if not recording.trace.traced:
        return "not traced", "not traced"
    num_submits = sum(event.call == "ioctl" for event in recording.trace.events)
    return str(len(recording.trace.events) - num_submits), str(num_submits)


def _devices(recordings: Sequence[Recording]) -> list[str]:
    """Say which starts ran on a device; it is a stand-in unless it is said to be the machine's own."""
    given: dict[str, list[str]] = {}
    for recording in recordings:
        if recording.device:
            given.setdefault(recording.facts.get("device", recording.device), []).append(recording.start.id)
    return [
        f"{'' if fact.startswith(REAL_DEVICE) else 'simulated '}device: {printable(fact)} of {', '.join(starts)}"
        for fact, starts in given.items()
    ]


def _total(rows: Sequence[tuple[str, ...]], seconds: float) -> tuple[str, ...]:
    sums = [sum(int(row[column]) for row in rows) for column in range(1, 5)]
    is_traced = not any(row[5] == "not traced" for row in rows)
    traced = [str(sum(int(row[column]) for row in rows)) if is_traced else "not traced" for column in (5, 6)]
    return (f"{len(rows)} starts", *(str(total) for total in sums), *traced, f"{seconds:.2f}")


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
