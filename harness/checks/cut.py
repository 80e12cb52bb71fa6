"""The smallest part of a recorded run on which a check still finds the same: what has to be asked again to see it.

It knows no single check: parts of the run are judged again, from the request alone to everything, until one shows the finding. What
such a part leaves out is what came before; a law that is about that says so (`Check.reads_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec

from harness.checks.check import Check
from harness.checks.evidence import Case, Evidence
from harness.checks.judge import apply
from harness.checks.order import BY_HAND
from harness.records.finding import Finding
from harness.records.plan import Plan, Request, Start
from harness.records.recording import Recording, Run
from harness.records.replay import Attempt

ALONE = "alone"
BEHIND = "behind all that its start was asked before"

Kept = dict[str, set[str]]  # start -> requests


def is_same(one: Finding, other: Finding) -> bool:
    """Whether two findings are of one check at one place; where the place is a whole start or run, they say the same too."""
    at_one_place = (one.check, one.start, one.request) == (other.check, other.start, other.request)
    return at_one_place and (bool(one.request) or one.message == other.message)


def attempts_of(evidence: Evidence, check: Check, finding: Finding) -> tuple[Attempt, ...]:
    """Return ways to ask for a finding again, the smallest first; () where no part of the run shows it by itself."""
    depends = _depends_on_history(evidence, check, finding)
    for name, kept in _parts(evidence, check, finding):
        by_history = _with_history(evidence, finding, kept)
        ways = {BEHIND: by_history} if depends else {name: kept, BEHIND: by_history}
        if by_history == kept:
            ways = {name: kept}
        if _shows(evidence.run, check, finding, next(iter(ways.values()))):
            return tuple(Attempt(way, _plan(evidence.run, check, part)) for way, part in ways.items())
    return ()


def _parts(evidence: Evidence, check: Check, finding: Finding) -> Iterator[tuple[str, Kept]]:
    """Yield parts of a run that may show a finding, by name, from its request alone to everything."""
    case = evidence.case(finding.start, finding.request)
    starts = _involved(evidence.run.plan, finding.start)
    if case is not None:
        alone = _with_counterparts(evidence, {finding.start: {finding.request}})
        yield ALONE, alone
        prompt = case.request.prompt_ids
        yield (
            "with its check's others to that prompt",
            _joined(alone, _asked(starts, lambda one: check.id in one.checks and one.prompt_ids == prompt)),
        )
    if starts:
        yield (
            "with all that its check reads there",
            _with_counterparts(evidence, _asked(starts, lambda one: check.id in one.checks)),
        )
    everywhere = evidence.run.plan.starts
    yield "with all that its check reads", _with_counterparts(evidence, _asked(everywhere, lambda one: check.id in one.checks))
    yield "with the whole plan", _asked(everywhere, lambda _one: True)


def _involved(plan: Plan, start_id: str) -> list[Start]:
    """Return a start and all that it is compared with, directly or not."""
    wanted, grown = {start_id}, True
    while grown:
        found = {name for start in plan.starts if start.id in wanted for name in (start.reference, start.host) if name}
        grown = not found <= wanted
        wanted |= found
    return [start for start in plan.starts if start.id in wanted]


def _asked(starts: Sequence[Start], concerns: Callable[[Request], bool]) -> Kept:
    return {start.id: {request.id for request in start.requests if concerns(request)} for start in starts}


def _joined(*parts: Mapping[str, Collection[str]]) -> Kept:
    joined: Kept = {}
    for part in parts:
        for start_id, requests in part.items():
            joined.setdefault(start_id, set()).update(requests)
    return joined


def _with_counterparts(evidence: Evidence, kept: Kept) -> Kept:
    """Add to each request what it is compared with: the same on the reference and on the host, and on theirs."""
    joined = _joined(kept)
    waiting = [case for case in evidence.all_cases if case.request.id in kept.get(case.start.id, ())]
    while waiting:
        case = waiting.pop()
        for other in _counterparts(evidence, case):
            if other.request.id not in joined.setdefault(other.start.id, set()):
                joined[other.start.id].add(other.request.id)
                waiting.append(other)
    return joined


def _counterparts(evidence: Evidence, case: Case) -> list[Case]:
    found = [evidence.reference(case), evidence.alike(case) if case.start.reference else None, evidence.on_host(case)]
    return [one for one in found if one is not None]


def _depends_on_history(evidence: Evidence, check: Check, finding: Finding) -> bool:
    start = next((one for one in evidence.run.plan.starts if one.id == finding.start), None)
    if start is None:
        return False
    facts = evidence.facts(start)
    return check.reads_order or facts.has_memory or BY_HAND in start.parameters


def _with_history(evidence: Evidence, finding: Finding, kept: Kept) -> Kept:
    """Add all that the start of a finding was asked before the last request that is kept of it, and what was sent beside that."""
    case = evidence.case(finding.start, finding.request)
    if case is None:
        return kept
    requests = case.start.requests
    wanted = {finding.request, *kept.get(finding.start, ())}  # a finding may hold without any request of its own start
    last = max(at for at, one in enumerate(requests) if one.id in wanted)
    while last + 1 < len(requests) and requests[last].group and requests[last + 1].group == requests[last].group:
        last += 1
    before = {finding.start: {one.id for one in requests[: last + 1]}}
    return _joined(kept, _with_counterparts(evidence, before) if case.facts.prefix_cache else before)


def _plan(run: Run, check: Check, kept: Kept) -> Plan:
    """Return the part of a plan that is kept, for one check alone."""
    starts = tuple(_cut_start(start, check, kept[start.id]) for start in run.plan.starts if kept.get(start.id))
    return msgspec.structs.replace(run.plan, starts=starts, checks=(check.id,), not_tested={})


def _cut_start(start: Start, check: Check, kept: Collection[str]) -> Start:
    requests = [
        msgspec.structs.replace(one, checks=tuple(name for name in one.checks if name == check.id))
        for one in start.requests
        if one.id in kept
    ]
    return msgspec.structs.replace(start, requests=tuple(requests))


def _shows(run: Run, check: Check, finding: Finding, kept: Kept) -> bool:
    """Whether a check makes a finding on a part of the recorded run."""
    plan = _plan(run, check, kept)
    known = {recording.start.id: recording for recording in run.recordings}
    recordings = tuple(_cut_recording(known[start.id], start) for start in plan.starts if start.id in known)
    part = msgspec.structs.replace(run, plan=plan, recordings=recordings)
    return any(is_same(finding, one) for one in apply(check, Evidence(part)).findings)


def _cut_recording(recording: Recording, start: Start) -> Recording:
    kept = {request.id for request in start.requests}
    answers = tuple(answer for answer in recording.answers if answer.request_id in kept)
    return msgspec.structs.replace(recording, start=start, answers=answers)
