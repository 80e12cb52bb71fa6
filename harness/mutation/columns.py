"""The arena that drives real subjects: one warm column per core, a cold one where a fresh process is asked for, and budgets."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.fabricate.store import pack_twin, twin
from harness.mutation.arena import CPU_BUDGET, WALL_BUDGET, Arena, Ground, Limits
from harness.records.fixture import Fixture
from harness.records.plan import Plan, Request, Start
from harness.records.recording import Answer, Recording, Run, Trace
from harness.runs.driver import record_start
from harness.subjects.column import Launcher, NeverReadyError
from harness.subjects.description import Description
from harness.subjects.subject import Cause, Ended, RunningSubject
from harness.subjects.warm import WarmLauncher


@dataclass(frozen=True, slots=True)
class FixtureFolders:
    """Finds the directories of fabricated models, packs and their twins."""

    fixture: Fixture

    def model(self, name: str) -> Path:
        """Return the directory of a container or of one of its twins."""
        return twin(self.fixture, name)

    def pack(self, name: str) -> Path:
        """Return the directory of a draft pack or of one of its twins."""
        return pack_twin(self.fixture, name)


@dataclass(frozen=True, slots=True)
class ColumnArena:
    """Records plans on one core. What the tracer saw of the decoys is asked once, when the column is opened."""

    description: Description
    folders: FixtureFolders
    workdir: Path
    core: int | None
    warm: Launcher  # a cold one where the description knows no warm start
    tracer_control: Trace | None
    decoys: tuple[str, ...]

    def record(self, plan: Plan, ground: Ground) -> Run:
        """Make every start of the plan, one after the other, each within its limits."""
        began = time.monotonic()
        with self._launcher(ground) as launcher:
            recordings = tuple(self._start(start, launcher, ground) for start in plan.starts)
        return Run(
            plan=plan,
            subject=self.description.name,
            declared=self.description.declared(),
            recordings=recordings,
            tracer_control=self.tracer_control,
            decoys=self.decoys,
            seconds=time.monotonic() - began,
        )

    @contextmanager
    def _launcher(self, ground: Ground) -> Iterator[Launcher]:
        if not ground.fresh and not ground.environment:
            yield self.warm
            return
        description = with_environment(self.description, ground.environment or {})
        with Launcher(description, self.workdir, self.core, machine=self.warm.machine) as launcher:
            yield launcher

    def _start(self, start: Start, launcher: Launcher, ground: Ground) -> Recording:
        budgeted = Budgeted(launcher, (ground.limits or {}).get(start.id))
        recording = record_start(start, self.description.name, self.folders, budgeted, ground.overlay)
        spent = budgeted.spent()
        return msgspec.structs.replace(recording, failure=f"{spent}; {recording.failure}".rstrip("; ")) if spent else recording


@contextmanager
def open_column(description: Description, fixture: Fixture, workdir: Path, core: int | None) -> Iterator[Arena]:
    """Open the column of one core, warm where the description allows it, and close it with all that it started."""
    kind = WarmLauncher if description.warm is not None else Launcher
    with kind(description, workdir, core) as warm:
        tracer_control, decoys = warm.control()
        yield ColumnArena(description, FixtureFolders(fixture), workdir, core, warm, tracer_control, decoys)


def with_environment(description: Description, added: Mapping[str, str]) -> Description:
    """Return the description of a subject that is started with more in its environment: a built-in switch."""
    environment = msgspec.structs.replace(description.environment, values={**description.environment.values, **added})
    return msgspec.structs.replace(description, environment=environment)


def usable_cores(workers: int) -> tuple[int, ...]:
    """Return the cores to pin columns to: the first ones that this process may use, at most `workers`."""
    return tuple(sorted(os.sched_getaffinity(0))[:workers])


@dataclass(slots=True)
class Budgeted:
    """A launcher that starts within limits, and remembers whether they were spent."""

    launcher: Launcher
    limits: Limits | None
    _began: float = field(default_factory=time.monotonic)
    _ended: Ended | None = None

    def start(self, start: Start, model: Path, pack: Path | None, overlay: Path | None = None) -> _Watched:
        """Start a subject within the limits. Raises StartError with its last lines."""
        cpu_s, wall_s = (self.limits.cpu_s, self.limits.wall_s) if self.limits else (None, None)
        try:
            subject = self.launcher.start(start, model, pack, overlay, cpu_budget_s=cpu_s, wall_budget_s=wall_s)
        except NeverReadyError as error:
            self._ended = error.ended
            raise
        return _Watched(subject, self)

    def refused(self, start: Start, model: Path, pack: Path | None, overlay: Path | None = None) -> Ended:
        """Start what must refuse to start."""
        return self.launcher.refused(start, model, pack, overlay)

    def close(self) -> None:
        """Leave the launcher to its owner."""

    def remember(self, ended: Ended) -> None:
        """Keep how the subject ended."""
        self._ended = ended

    def spent(self) -> str:
        """Say which budget was spent; "" for none."""
        if self.limits is None or self._ended is None:
            return ""
        if self._ended.cause is Cause.CPU_BUDGET:
            return f"{CPU_BUDGET}: {self.limits.cpu_s:g} s of CPU were not enough"
        if time.monotonic() - self._began >= self.limits.wall_s:
            return f"{WALL_BUDGET}: {self.limits.wall_s:g} s were not enough"
        return ""


@dataclass(frozen=True, slots=True)
class _Watched:
    """A running subject whose end is remembered."""

    subject: RunningSubject
    budget: Budgeted

    @property
    def ready_line(self) -> str:
        return self.subject.ready_line

    def ask(self, request: Request) -> Answer:
        return self.subject.ask(request)

    def end(self) -> Ended:
        ended = self.subject.end()
        self.budget.remember(ended)
        return ended
