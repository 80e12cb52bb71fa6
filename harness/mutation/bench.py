"""One mutant from its plan to its decision: the first look, the confirmation of whatever is no plain kill, the result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.checks.replays import Place
from harness.mutation.arena import Arena
from harness.mutation.entry import Activation, Mutant
from harness.mutation.look import Ask, Look, look
from harness.mutation.planted import diff_of, place_of
from harness.mutation.verdict import Confirmation, Decision, agrees, decide, glance
from harness.mutation.workshop import Workshop
from harness.records.finding import Finding
from harness.records.outcome import MutantResult, Outcome
from harness.records.plan import Tier
from harness.records.replay import Mutation, PlantedEdit, Replay

_EVENTS = (Outcome.UNVIABLE, Outcome.TIMEOUT, Outcome.NO_START, Outcome.DIED)


@dataclass(frozen=True, slots=True)
class Finished:
    """A mutant that was run: its result, what a person reads of it, and its diff."""

    result: MutantResult
    log: str
    diff: str
    replays: Mapping[Place, Replay] = field(default_factory=dict)  # of what it found, where that was not as expected


def run_mutant(workshop: Workshop, mutant: Mutant, arena: Arena | None, *, full: bool = False, fingerprint: str = "") -> Finished:
    """Run one mutant to its decision. `full` asks every check by the gate plan at once."""
    began = time.monotonic()
    ask = first_ask(workshop, mutant, full=full)
    looks = [look(workshop, mutant, arena, ask)]
    confirmation = None
    if glance(mutant.entry, looks[0].attempt) is not Outcome.KILLED:
        confirmation = _confirm(workshop, mutant, arena, ask, looks)
    decision = decide(mutant.entry, looks[0].attempt, confirmation)
    result = _result(workshop, mutant, decision, looks, time.monotonic() - began, fingerprint)
    told = [f"{mutant.id}: {decision.outcome.value} {decision.reason}".rstrip(), *(each.log for each in looks)]
    replays = {} if decision.outcome is Outcome.KILLED else _replays(workshop, mutant, looks)
    return Finished(result, "\n\n".join(told) + "\n", diff_of(mutant, workshop.source.read), replays)


def first_ask(workshop: Workshop, mutant: Mutant, *, full: bool) -> Ask:
    """Return what the first look at a mutant asks: its killers' mutation slices, or with `full` the whole gate plan."""
    with_gate = full and bool(mutant.check_killers)
    return Ask(
        checks=workshop.laws.checks if with_gate else mutant.check_killers,
        tier=Tier.GATE if with_gate else Tier.MUTATION,
        nodes=mutant.test_killers,
        arms=mutant.entry.arms,
        fresh=mutant.entry.activation is Activation.FRESH,
    )


def _confirm(workshop: Workshop, mutant: Mutant, arena: Arena | None, ask: Ask, looks: list[Look]) -> Confirmation:
    """Look again in a fresh process with marks: the same plan where the subject failed, else all arms and checks of the gate."""
    first = looks[0].attempt
    same_plan = glance(mutant.entry, first) in _EVENTS or not ask.checks or ask.tier is Tier.GATE
    second = replace(ask, fresh=True, with_marks=True)
    if not same_plan:
        second = replace(second, checks=workshop.laws.checks, tier=Tier.GATE, arms=())
    looks.append(look(workshop, mutant, arena, second))
    again = None
    if not same_plan and not agrees(mutant.entry, first, looks[1].attempt):
        looks.append(look(workshop, mutant, arena, replace(ask, fresh=True)))
        again = looks[2].attempt
    return Confirmation(looks[1].attempt, same_plan, again, looks[1].not_reached)


def _result(
    workshop: Workshop, mutant: Mutant, decision: Decision, looks: Sequence[Look], seconds: float, fingerprint: str
) -> MutantResult:
    entry = mutant.entry
    return MutantResult(
        id=entry.id,
        family=mutant.family,
        kind=entry.kind.value,
        title=entry.title,
        why=entry.why,
        outcome=decision.outcome,
        reason=decision.reason,
        killers=entry.killers,
        place=place_of(mutant, workshop.source.read),
        failed=decision.failed,
        passed=decision.passed,
        missing=decision.missing,
        also=decision.also,
        findings=_first_of_each(looks),
        num_runs=len(looks),
        seconds=seconds,
        fingerprint=fingerprint,
    )


def _replays(workshop: Workshop, mutant: Mutant, looks: Sequence[Look]) -> dict[Place, Replay]:
    """Return what repeats the first finding of each check, with the fault planted again."""
    edits = tuple(PlantedEdit(edit.file, edit.find, edit.replace) for edit in mutant.edits)
    mutation = Mutation(mutant.id, edits, dict(mutant.entry.env))
    replays: dict[Place, Replay] = {}
    for finding in _first_of_each(looks):
        run = next((each.run for each in looks if finding in each.attempt.findings), None)
        if run is not None:
            replays |= workshop.laws.replays(run, [finding], mutation)
    return replays


def _first_of_each(looks: Sequence[Look]) -> tuple[Finding, ...]:
    first: dict[str, Finding] = {}
    for each in looks:
        for finding in each.attempt.findings:
            first.setdefault(finding.check, finding)
    return tuple(first.values())
