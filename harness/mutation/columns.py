"""The arena that drives real subjects: one warm column per core, a cold one where a fresh process is asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.fabricate.located import Located
from harness.mutation.arena import WALL_BUDGET, Arena, Ground
from harness.oracle.expect import Oracle
from harness.records.fixture import Fixture
from harness.records.plan import Plan
from harness.records.recording import Recording, Run, Trace
from harness.runs.driver import Budget, Setting, record_start
from harness.subjects.column import Launcher
from harness.subjects.description import Description
from harness.subjects.warm import WarmLauncher


@dataclass(frozen=True, slots=True)
class ColumnArena:
    """Records plans on one core. What the tracer sees of the decoys is asked once, when the column is opened."""

    description: Description
    folders: Located
    workdir: Path
    core: int
    launcher: Launcher  # warm where the description knows a warm start
    tracer_control: Trace
    decoys: tuple[str, ...]
    oracle: Oracle | None = None  # remembers from mutant to mutant what models and packs say; None = runs have no expectations

    def record(self, plan: Plan, ground: Ground) -> Run:
        """Make every start of the plan, one after the other, each within its budget."""
        began = time.monotonic()
        budgets = ground.budgets or {}
        setting = Setting(self.description.name, self.folders, ground.overlay, budgets)
        with self._launcher(ground) as launcher:
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
        return run if self.oracle is None else self.oracle.completed(run)

    @contextmanager
    def _launcher(self, ground: Ground) -> Iterator[Launcher]:
        if not ground.fresh and not ground.environment:
            yield self.launcher
            return
        description = with_environment(self.description, ground.environment or {})
        with Launcher(description, self.workdir, self.core, machine=self.launcher.machine) as launcher:
            yield launcher


@contextmanager
def open_column(description: Description, fixture: Fixture, workdir: Path, core: int) -> Iterator[Arena]:
    """Open the column of one core, warm where the description allows it, and close it with all that it started."""
    kind = Launcher if description.warm is None else WarmLauncher
    with kind(description, workdir, core) as launcher:
        tracer_control, decoys = launcher.control()
        folders = Located(fixture)
        yield ColumnArena(description, folders, workdir, core, launcher, tracer_control, decoys, Oracle(folders))


def with_environment(description: Description, added: Mapping[str, str]) -> Description:
    """Return the description of a subject that is started with more in its environment: a built-in switch."""
    environment = msgspec.structs.replace(description.environment, values={**description.environment.values, **added})
    return msgspec.structs.replace(description, environment=environment)


def usable_cores(workers: int) -> tuple[int, ...]:
    """Return the cores to pin columns to: the first ones that this process may use, at most `workers`."""
    return tuple(sorted(os.sched_getaffinity(0))[:workers])


def within(recording: Recording, budget: Budget | None) -> Recording:
    """Say in a recording that its wall budget ran out; one that ran out of CPU says so itself."""
    if budget is None or recording.seconds < budget.wall_s:
        return recording
    failure = f"{WALL_BUDGET}: {recording.seconds:.1f} s of {budget.wall_s:g} s; {recording.failure}"
    return msgspec.structs.replace(recording, failure=failure.removesuffix("; "))
