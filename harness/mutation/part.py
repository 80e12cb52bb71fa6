"""The clean run of a smaller plan, out of a clean run that asked all of it and more. It starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from harness.mutation.nodes import NodeRun
from harness.records.plan import Plan, Request, Start
from harness.records.recording import Recording, Run


def part_of(run: Run, plan: Plan) -> Run | None:
    """Return what `run` answered to the requests of `plan`, or None where it was not asked all of them.

    Costs are shares of the larger run's, by the tokens that were asked for. What depends on the other requests stays as it was:
    the trace, the log and the submits of a whole start, and what a cache held when its request came. A check that holds such a
    thing against this plan then finds something, and the plan wants a run of its own.
    """
    larger = {recording.start.id: recording for recording in run.recordings}
    parts = [_part(larger[start.id], start) if start.id in larger else None for start in plan.starts]
    found = tuple(part for part in parts if part is not None)
    return msgspec.structs.replace(run, plan=plan, recordings=found) if len(found) == len(parts) else None


def part_of_nodes(run: NodeRun, nodes: Sequence[str]) -> NodeRun | None:
    """Return what a larger run said of some test nodes, or None where it was not asked all of them. Its seconds stay whole."""
    if not {*nodes} <= {*run.failed, *run.passed, *run.broken}:
        return None
    return replace(
        run,
        failed=tuple(node for node in nodes if node in run.failed),
        passed=tuple(node for node in nodes if node in run.passed),
        broken=tuple(node for node in nodes if node in run.broken),
    )


def _part(recording: Recording, start: Start) -> Recording | None:
    if _alone(recording.start) != _alone(start):
        return None
    asked = {request.id: request for request in recording.start.requests}
    answers = {answer.request_id: answer for answer in recording.answers}
    if not all(request.id in asked and _same(request, asked[request.id]) for request in start.requests):
        return None
    share = _tokens(start) / max(_tokens(recording.start), 1)
    return msgspec.structs.replace(
        recording,
        start=start,
        answers=tuple(answers[request.id] for request in start.requests),
        seconds=recording.seconds * share,
        cpu_seconds=recording.cpu_seconds * share,
    )


def _alone(start: Start) -> Start:
    return msgspec.structs.replace(start, requests=())


def _same(one: Request, other: Request) -> bool:
    """Tell whether two requests ask the same, whoever reads the answers."""
    return msgspec.structs.replace(one, checks=other.checks, role=other.role) == other


def _tokens(start: Start) -> int:
    return sum(request.max_tokens for request in start.requests)
