"""The world of the relay's faults: the laws of a described subject on few arms, and arenas that put a relay in front of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.checks.judge import judge
from harness.checks.known import CHECK as KNOWN_FAULTS
from harness.checks.registry import ALL_CHECKS
from harness.errors import UsageError
from harness.fabricate.located import Containers, Located
from harness.fabricate.store import fabricate
from harness.mutation.arena import Arena, Ground
from harness.mutation.catalogue import RELAY, SOURCE_FILE
from harness.mutation.columns import usable_cores, within
from harness.mutation.laws import Laws
from harness.mutation.overlay import Source
from harness.mutation.relaying import NEUTRAL, copy_code, fit, reduced, relayed, settings_of
from harness.mutation.world import World
from harness.oracle.expect import Oracle
from harness.plans.build import build_plan
from harness.plans.fit import fitted
from harness.plans.registry import SLICES
from harness.records.files import read_toml, write_bytes
from harness.records.fixture import Fixture
from harness.records.plan import Plan, Tier
from harness.records.recording import Run, Trace
from harness.runs.driver import Setting, record_start
from harness.subjects.column import Launcher
from harness.subjects.description import Description, load_description
from harness.subjects.requirements import require
from harness.subjects.warm import WarmLauncher
from harness.tracing.machine import Machine, probe

SETTINGS = "relay.json"


class RelayFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """mutants/relay/source.toml: where the relay's own text is, and which parts of a plan are played behind it."""

    packages: tuple[str, ...]  # what must not change while the run lasts
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RelayArena:
    """Records plans on one core, each subject a relay's child, started cold. It has no source: overlays are not looked at."""

    description: Description
    fixture: Fixture
    workdir: Path
    core: int
    machine: Machine
    tracer_control: Trace
    decoys: tuple[str, ...]
    code: Path  # where the relay's own lies, as it was when the run began
    oracle: Oracle = field(repr=False)

    def record(self, plan: Plan, ground: Ground) -> Run:
        """Make every start of the plan, one after the other, behind a relay with the ground's fault, or directly."""
        began = time.monotonic()
        budgets = ground.budgets or {}
        setting = Setting(self.description.name, Located(self.fixture), None, budgets)
        description = self._description(ground)
        kind = Launcher if description.warm is None else WarmLauncher
        with kind(description, self.workdir, self.core, machine=self.machine) as launcher:
            recordings = tuple(within(record_start(start, setting, launcher), budgets.get(start.id)) for start in plan.starts)
        run = Run(
            plan=plan,
            subject=self.description.name,
            declared=self.description.declared(),
            recordings=recordings,
            tracer_control=self.tracer_control,
            decoys=self.decoys,
            seconds=time.monotonic() - began,
        )
        return self.oracle.completed(run)

    def _description(self, ground: Ground) -> Description:
        if ground.direct:
            return self.description
        settings = self.workdir / f"core-{self.core}" / SETTINGS
        settings.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(settings, settings_of(self.description, ground.relay or NEUTRAL))
        return relayed(self.description, settings, self.code)


def relay_world(root: Path, subject: str, recipe: Path, workers: int) -> World:
    """Build the world of the relay's faults on a described subject. Raises UsageError, MachineError."""
    if workers < 1:
        raise UsageError(f"--workers {workers}: at least one column is needed; give 1 or more")
    file = read_toml(root / "mutants" / RELAY / SOURCE_FILE, RelayFile)
    whole = load_description(subject)
    require(whole)
    description = reduced(whole, file.parts)
    fixture = fabricate(recipe)
    plan = _planner(description, fixture)
    asked = plan(Tier.MUTATION, tuple(SLICES))
    not_tested = {check: asked.not_tested.get(check, "nothing of it is asked") for check in SLICES if check not in asked.checks}

    @contextmanager
    def open_arenas(workdir: Path) -> Iterator[Sequence[Arena]]:
        machine = probe()
        code = copy_code(workdir / "relay")
        with ExitStack() as stack:
            arenas = (_open_arena(description, fixture, workdir, core, machine, code) for core in usable_cores(workers))
            yield [stack.enter_context(arena) for arena in arenas]

    return World(
        source=Source(root, (), file.packages),
        laws=Laws(
            checks=asked.checks,
            laws={check.id: check.law for check in ALL_CHECKS},
            arms=tuple(description.arms),
            plan=plan,
            judge=lambda run: judge(run, ALL_CHECKS),
            recipe=fixture.recipe,
        ),
        open_arenas=open_arenas,
        fit=lambda mutants: fit(mutants, description, not_tested),
        name=f"{RELAY}-{description.name}",
    )


def _planner(description: Description, fixture: Fixture) -> Callable[[Tier, Collection[str]], Plan]:
    needs = {check.id: check.needs for check in ALL_CHECKS}

    own = tuple(fault.check for fault in description.known_faults)

    def plan(tier: Tier, wanted: Collection[str]) -> Plan:
        wanted = {*wanted, *own} if KNOWN_FAULTS in wanted else wanted  # a pinned fault is told by what its own check finds
        return fitted(build_plan(fixture, tier, SLICES, wanted), description, fixture, needs)

    return plan


@contextmanager
def _open_arena(
    description: Description, fixture: Fixture, workdir: Path, core: int, machine: Machine, code: Path
) -> Iterator[Arena]:
    with Launcher(description, workdir, core, machine=machine) as launcher:
        tracer_control, decoys = launcher.control()
    oracle = Oracle(Containers(fixture))
    yield RelayArena(description, fixture, workdir, core, machine, tracer_control, decoys, code, oracle)
