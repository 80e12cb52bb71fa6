"""The gate, whole: fabricate, plan, record, judge. What both faces (`draftproof run` and `pytest harness`) call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.checks.divergence import no_gaps, with_divergences
from harness.checks.evidence import Evidence
from harness.checks.judge import judge
from harness.checks.known import CHECK as KNOWN_FAULTS
from harness.checks.order import BY_HAND
from harness.checks.registry import ALL_CHECKS
from harness.defaults import DEFAULT_RECIPE
from harness.errors import UsageError
from harness.fabricate.located import Containers, Located
from harness.fabricate.store import default_cache, fabricate
from harness.oracle.expect import Oracle
from harness.oracle.memory import Memory
from harness.plans.build import build_plan
from harness.plans.fit import fitted
from harness.plans.near_ties import follow_up
from harness.plans.registry import SLICES
from harness.plans.shuffle import shuffled, with_fresh_cases
from harness.records.finding import Judgement
from harness.records.fixture import Fixture
from harness.records.plan import Plan, Tier
from harness.records.recording import Recording, Run, Trace
from harness.runs.driver import Setting, record_plan
from harness.scratch import scratch
from harness.subjects.column import Launcher
from harness.subjects.description import Description, load_description
from harness.subjects.mixed import MixedLauncher, cold_starts
from harness.subjects.requirements import require
from harness.subjects.warm import WarmLauncher
from harness.tracing.machine import Machine, probe

CORES = (0, 1)  # one column each


@dataclass(frozen=True, slots=True)
class GateOptions:
    """What a gate run is asked for."""

    subject: str = "forward-serve"
    tier: Tier = Tier.GATE
    checks: tuple[str, ...] = ()  # () = all
    traced: bool = True
    recipe: Path = DEFAULT_RECIPE
    shuffle: int | None = None  # a seed: requests in another order, and fresh cases


def plan_of(options: GateOptions, fixture: Fixture) -> Plan:
    """Build the plan that the options ask for, as the subject can be asked it."""
    description = load_description(options.subject)
    wanted: Collection[str] = options.checks or tuple(SLICES)
    asked = set(wanted)  # a pinned fault, and what it leaves, is told by what the fault's own check finds
    own = (fault.check for fault in description.known_faults if asked.intersection((KNOWN_FAULTS, *fault.leaves)))
    wanted = dict.fromkeys((*wanted, *own))
    plan = build_plan(fixture, options.tier, SLICES, wanted)
    if options.shuffle is not None:
        plan = with_fresh_cases(plan, fixture, options.shuffle)
    plan = fitted(plan, description, fixture, {check.id: check.needs for check in ALL_CHECKS})
    return plan if options.shuffle is None else _shuffled(plan, description, options.shuffle)


def _shuffled(plan: Plan, description: Description, seed: int) -> Plan:
    """Shuffle what may be: no request of a law on order, and no start on which a path depends on what came before."""
    declared = description.declared()
    intact = [one.id for one in plan.starts if declared.facts_of(one).has_memory or BY_HAND in one.parameters]
    return shuffled(plan, seed, [check.id for check in ALL_CHECKS if check.reads_order], intact)


def record(
    options: GateOptions, progress: Callable[[Recording], None] = lambda _recording: None, plan: Plan | None = None
) -> Run:
    """Fabricate what is missing, drive the subject through the plan, and return the run, unjudged.

    `plan` is what `plan_of` gave for these options, where that was asked before.
    """
    description = load_description(options.subject)
    require(description, default_cache(os.environ))
    fixture = fabricate(options.recipe)
    plan = plan or plan_of(options, fixture)
    is_usual = not options.checks and options.shuffle is None  # the same plan will be asked again
    memory = Memory(fixture, f"{description.name}-{options.tier.value}", keeps=is_usual)
    return asked(plan, fixture, description, traced=options.traced, progress=progress, memory=memory)


def asked(
    plan: Plan,
    fixture: Fixture,
    description: Description,
    *,
    traced: bool,
    overlay: Path | None = None,
    progress: Callable[[Recording], None] = lambda _recording: None,
    memory: Memory | None = None,
) -> Run:
    """Drive a subject through a plan as it is, from its own source tree or from another, and return the run, unjudged.

    Expectations that `memory` holds are taken for known; without one all are computed.
    """
    began = time.monotonic()
    machine = probe(traced=traced)
    with scratch("gate") as workdir:
        cold = cold_starts(plan, description.declared()) if description.warm else {start.id for start in plan.starts}

        def launcher(core: int) -> Launcher | MixedLauncher:
            made = Launcher(description, workdir, core, traced=traced, machine=machine)
            if description.warm is None:
                return made
            return MixedLauncher(made, WarmLauncher(description, workdir, core, traced=traced, machine=machine), cold)

        tracer_control, decoys = _control(description, workdir, machine) if traced else (None, ())

        def recorded(part: Plan) -> tuple[Recording, ...]:
            return record_plan(
                part,
                Setting(subject=description.name, locator=Located(fixture), overlay=overlay),
                launcher,
                cores=CORES if description.parallel_arms else CORES[:1],
                progress=progress,
            )

        recordings = recorded(plan)
        further = () if description.certified else follow_up(plan, recordings, description.declared())
        if further:
            recordings += recorded(msgspec.structs.replace(plan, starts=further))
            plan = msgspec.structs.replace(plan, starts=(*plan.starts, *further))
    run = Run(
        plan=plan,
        subject=description.name,
        declared=description.declared(),
        recordings=tuple(recording if recording.start.id in cold else _forked(recording) for recording in recordings),
        tracer_control=tracer_control,
        decoys=decoys,
        losses=machine.losses,
        seconds=time.monotonic() - began,
    )
    return Oracle(Containers(fixture)).completed(run) if memory is None else _remembering(run, fixture, memory)


def _remembering(run: Run, fixture: Fixture, memory: Memory) -> Run:
    """Complete a run with expectations; those that an earlier one computed from the same files are taken for known."""
    oracle = Oracle(Containers(fixture))
    before = memory.read()
    if before is not None:
        oracle.recall(before)
    completed = oracle.completed(run)
    expectations = completed.expectations
    if expectations is None or not (expectations.sayings or expectations.draftings):
        return completed
    if oracle.num_read == 0:
        return msgspec.structs.replace(completed, remembers=True)
    memory.write(expectations)
    return completed


def _forked(recording: Recording) -> Recording:
    return msgspec.structs.replace(recording, facts={**recording.facts, "start": "forked from a warm parent"})


def recomputed(run: Run, recipe: Path) -> Run:
    """Return a recorded run with expectations computed anew. Raises UsageError for another recipe than it was recorded on."""
    fixture = fabricate(recipe)
    if fixture.recipe != run.plan.recipe:
        raise UsageError(f"{recipe}: fabricates {fixture.recipe}, the run was recorded on {run.plan.recipe}; give its own recipe")
    return Oracle(Containers(fixture)).completed(run)


def _control(description: Description, workdir: Path, machine: Machine) -> tuple[Trace, tuple[str, ...]]:
    with Launcher(description, workdir, traced=True, machine=machine) as launcher:
        return launcher.control()


def judged(run: Run) -> Judgement:
    """Judge a run by the checks that its plan names."""
    return judge(run, ALL_CHECKS)


def explained(run: Run, judgement: Judgement, recipe: Path | None) -> Judgement:
    """Return a judgement whose findings on replies tell where those left the right ones.

    With the `recipe` that the run was recorded on, how close a choice was is computed from its files; without, or with another
    one, it is read from the recording, if that tells.
    """
    if not judgement.findings:
        return judgement
    fixture = None if recipe is None else fabricate(recipe)
    has_files = fixture is not None and fixture.recipe == run.plan.recipe
    gaps = Oracle(Containers(fixture)).gaps if fixture is not None and has_files else no_gaps
    return with_divergences(Evidence(run), judgement, gaps)
