"""What a subject's mutants are judged by: its checks, the plans that they read, and the arms of those plans."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from harness.checks.check import Check
from harness.checks.evidence import Evidence
from harness.checks.judge import judge
from harness.checks.replays import Origin, Place, replays_of
from harness.plans.build import Slice, build_plan
from harness.records.finding import Finding, Judgement
from harness.records.fixture import Fixture
from harness.records.plan import Plan, Start, Tier
from harness.records.recording import Run
from harness.records.replay import Mutation, Replay

MakeReplays = Callable[[Run, Sequence[Finding], Mutation], Mapping[Place, Replay]]
CONTROL = "control-"  # checks of this prefix judge the harness; the tool's own catalogue proves them


@dataclass(frozen=True, slots=True)
class Laws:
    """The checks of one subject, and how plans for them are made and judged."""

    checks: tuple[str, ...]  # all of the gate, in the order of the plan
    laws: Mapping[str, str]  # check id -> its law in one sentence
    arms: tuple[str, ...]
    plan: Callable[[Tier, Collection[str]], Plan]
    judge: Callable[[Run], Judgement]
    recipe: str = ""
    replays: MakeReplays = lambda _run, _findings, _mutation: {}  # what repeats findings with a fault planted

    @property
    def proper(self) -> tuple[str, ...]:
        """The checks that judge the subject: all but the controls."""
        return tuple(check for check in self.checks if not check.startswith(CONTROL))


def laws_of(
    fixture: Fixture, checks: Sequence[Check], slices: Mapping[str, Slice], arms: Collection[str], origin: Origin | None = None
) -> Laws:
    """Return the laws of a subject from its fixture, its checks and the slices that they read; without `origin` nothing is kept."""

    def replays(run: Run, findings: Sequence[Finding], mutation: Mutation) -> Mapping[Place, Replay]:
        if origin is None:
            return {}
        return replays_of(Evidence(run), findings, checks, replace(origin, mutation=mutation))

    return Laws(
        checks=tuple(slices),
        laws={check.id: check.law for check in checks},
        arms=tuple(arms),
        plan=lambda tier, wanted: build_plan(fixture, tier, slices, wanted),
        judge=lambda run: judge(run, checks),
        recipe=fixture.recipe,
        replays=replays,
    )


def restricted(plan: Plan, arms: Collection[str]) -> Plan:
    """Return the plan with the starts of some arms, and what those are compared with; () = all of it.

    A start that is only compared with is not asked what it would be asked for the sake of the others alone.
    """
    if not arms:
        return plan
    wanted = [start for start in plan.starts if start.arm in arms]
    kept = {start.id: start for start in wanted}
    for start in plan.starts:
        if start.id not in kept and start.id in _references(wanted, plan):
            kept[start.id] = _without(start, _asked(plan.starts) - _asked(wanted))
    return msgspec.structs.replace(plan, starts=tuple(kept[start.id] for start in plan.starts if start.id in kept))


def _references(starts: Collection[Start], plan: Plan) -> set[str]:
    """Return the ids of all that these starts are compared with, at first or second hand."""
    compared = {start.id: _compared_with(start) for start in plan.starts}
    found: set[str] = set()
    waiting = [name for start in starts for name in _compared_with(start)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += compared[name]
    return found


def _compared_with(start: Start) -> list[str]:
    return [name for name in (start.reference, start.drafts_as) if name is not None]


def _asked(starts: Collection[Start]) -> set[str]:
    """Return the ids of what is asked of starts that are compared with others."""
    return {request.id for start in starts if start.reference is not None for request in start.requests}


def _without(start: Start, dropped: Collection[str]) -> Start:
    return msgspec.structs.replace(start, requests=tuple(each for each in start.requests if each.id not in dropped))
