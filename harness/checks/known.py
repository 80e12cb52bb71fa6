"""The law on known faults: each fault that a description pins is still there, under its condition, on each arm that it names.

A finding that is a pinned fault is marked and counts no longer; whatever lies outside of the condition stays a finding. It knows no
single fault, and it finds none itself: the general checks do.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence

import msgspec

from harness.checks.check import Check, Ledger
from harness.checks.evidence import Evidence
from harness.records.finding import CheckResult, Finding, Verdict
from harness.records.known import KnownFault
from harness.records.need import Need
from harness.records.plan import Request, Start
from harness.records.recording import Run

CHECK = "known-faults"
ANY_START = "*"


def marked(run: Run, results: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    """Return the results with each finding that is a pinned fault, or that follows from one, named after it.

    Of several faults whose condition it meets it is the one with the narrowest, and of those the one that is described first.
    """
    left = _left_behind(run, results)
    return tuple(
        msgspec.structs.replace(result, findings=tuple(_named(run, one, left) for one in result.findings)) for result in results
    )


def _left_behind(run: Run, results: Sequence[CheckResult]) -> dict[tuple[str, str, str], str]:
    """Return the fault from which findings at each (check, start, request) follow: where it shows itself, by another check."""
    left: dict[tuple[str, str, str], str] = {}
    for fault in run.declared.known_faults:
        for finding in _shown_by(run, fault, results):
            for check in fault.leaves:
                left.setdefault((check, finding.start, finding.request), fault.id)
    return left


def _named(run: Run, finding: Finding, left: dict[tuple[str, str, str], str]) -> Finding:
    own = max((fault for fault in run.declared.known_faults if is_of(run, fault, finding)), key=_num_conditions, default=None)
    place, known = (finding.check, finding.start), own.id if own else ""
    return msgspec.structs.replace(finding, known=known or left.get((*place, finding.request)) or left.get((*place, ""), ""))


def _num_conditions(fault: KnownFault) -> int:
    return len(fault.fields) + fault.is_cut_short + fault.is_behind_long + (fault.starts != ANY_START)


def _shown_by(run: Run, fault: KnownFault, results: Sequence[CheckResult]) -> Iterator[Finding]:
    for result in results:
        if result.check == fault.check:
            yield from (finding for finding in result.findings if is_of(run, fault, finding))


def is_of(run: Run, fault: KnownFault, finding: Finding) -> bool:
    """Whether a finding is a pinned fault, by its whole condition."""
    start = next((one for one in run.plan.starts if one.id == finding.start), None)
    if start is None or finding.check != fault.check:
        return False
    requests = [one for one in start.requests if finding.request in ("", one.id)]  # a finding on the start itself names none
    if not any(could_show(fault, start, one) for one in requests):
        return False
    return re.search(fault.message, finding.message) is not None and (not fault.is_cut_short or _is_cut_short(finding))


def could_show(fault: KnownFault, start: Start, request: Request) -> bool:
    """Whether a request to a start meets the condition of a fault, whatever came back."""
    is_there = start.arm in (*fault.arms, *fault.at_times) and fnmatch.fnmatchcase(start.id, fault.starts)
    is_asked = fault.check in request.checks and set(fault.fields) <= (request.body or {}).keys()
    return is_there and is_asked and (not fault.is_behind_long or _is_behind_long(start, fault.check))


def _is_behind_long(start: Start, check: str) -> bool:
    read = [index for index, request in enumerate(start.requests) if check in request.checks]
    longest = max(_size(start.requests[index]) for index in read)
    return any(_size(request) >= longest for request in start.requests[: read[0]])


def _size(request: Request) -> int:
    return len(request.prompt_ids) + request.max_tokens


def _is_cut_short(finding: Finding) -> bool:
    want, got = finding.want, finding.got
    if not isinstance(want, Sequence) or not isinstance(got, Sequence):
        return False
    return len(got) < len(want) and list(want[: len(got)]) == list(got)


def _judge_known(evidence: Evidence, results: Sequence[CheckResult], ledger: Ledger) -> None:
    run = evidence.run
    for fault in run.declared.known_faults:
        shown = {finding.start for finding in _shown_by(run, fault, results)}
        for arm in fault.arms:
            starts = [start for start in run.plan.starts if start.arm == arm and _asks(fault, start)]
            for start in starts:
                ledger.examine(start.id)
            if starts and not shown & {start.id for start in starts}:
                message = f"{fault.id} is gone on arm {arm}: {fault.title}; take it out of the description"
                ledger.fault_of_start(starts[0].id, message, want=f"a finding of {fault.check}", got="none")


def _asks(fault: KnownFault, start: Start) -> bool:
    return any(could_show(fault, start, request) for request in start.requests)


def _reads_results(_evidence: Evidence, _ledger: Ledger) -> None:
    """Judge nothing by itself: what the other checks found is judged after them."""


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.KNOWN_GONE,
        "Each fault that the description pins is still there, under its condition, on each arm that it names.",
        _reads_results,
        needs=(Need.KNOWN_FAULTS,),
        after=_judge_known,
    ),
)
