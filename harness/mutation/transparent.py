"""The probe of the relay: without a fault it changes nothing. A run behind it is held against one without it, answer by answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from harness.mutation.arena import Arena, Ground, log_of
from harness.mutation.probes import told
from harness.mutation.workshop import Clean, Workshop
from harness.records.outcome import ProbeResult
from harness.records.plan import Plan, Request
from harness.records.recording import Answer, Recording, Run
from harness.report.escape import printable

NAME = "transparent"
NEVER_THE_SAME = frozenset({"id", "created", "seconds"})
_SHOWN = 12


def transparent(workshop: Workshop, plan: Plan, clean: Clean, arena: Arena) -> ProbeResult:
    """Record the plan without a relay, and compare it with the clean run behind one."""
    assert clean.run is not None
    with workshop.overlay({}) as root:
        run = arena.record(plan, Ground(overlay=root, direct=True))
    judgement = workshop.laws.judge(run)
    troubles = [printable(line) for line in log_of(run)] + [told(finding) for finding in judgement.counted]
    troubles += [printable(line) for line in differences(run, clean.run)]
    if troubles:
        return ProbeResult(NAME, holds=False, message="; ".join(troubles[:_SHOWN]), log="\n".join(troubles))
    num_answers = sum(len(recording.answers) for recording in run.recordings)
    return ProbeResult(NAME, holds=True, message=f"{num_answers} answers are the same with a relay between and without")


def differences(direct: Run, relayed: Run) -> Iterator[str]:
    """Yield what differs between two runs of one plan, one line each."""
    for one, other in zip(direct.recordings, relayed.recordings, strict=True):
        place = one.start.id
        if _traced(one) != _traced(other):
            yield f"{place}: opened {_traced(one)} without the relay, {_traced(other)} with it"
        if (one.exit_status is None) != (other.exit_status is None) or bool(one.failure) != bool(other.failure):
            yield f"{place}: ended with {one.exit_status} without the relay, with {other.exit_status} behind it"
        for request, answer, behind in zip(one.start.requests, one.answers, other.answers, strict=True):
            names = _differing(request, answer, behind, direct.declared.never_equal)
            if names:
                yield f"{place} {request.id}: {', '.join(names)}: not as without the relay"


def _traced(recording: Recording) -> tuple[Any, ...]:
    events = [(event.call, event.path, event.request_id, event.by_child) for event in recording.trace.events]
    return events, sorted(recording.trace.opened)


def _differing(request: Request, answer: Answer, behind: Answer, never_equal: Collection[str]) -> list[str]:
    """Return the names of fields that differ; of a client that left only that it did, for nobody knows how far it came."""
    if request.leave_after_chunks is not None:
        return [] if answer.failure == behind.failure else ["failure"]
    leave_out = NEVER_THE_SAME.union(never_equal, {"response_id"} if request.group else ())
    one, other = _timeless(answer, leave_out), _timeless(behind, leave_out)
    return [name for name in one if one[name] != other[name]]


def _timeless(answer: Answer, leave_out: Collection[str]) -> dict[str, Any]:
    found = _without(msgspec.to_builtins(answer), leave_out)
    return {name: found.get(name) for name in Answer.__struct_fields__}


def _without(value: Any, leave_out: Collection[str]) -> Any:
    if isinstance(value, Mapping):
        return {name: _without(inner, leave_out) for name, inner in value.items() if name not in leave_out}
    return [_without(inner, leave_out) for inner in value] if isinstance(value, list | tuple) else value
