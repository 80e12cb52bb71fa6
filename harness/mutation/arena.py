"""Where a mutant is run: the narrow door between this room and whatever drives subjects, and how a run's end is read.

An arena records a plan against a source tree. It does not know mutants; nothing here knows processes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.mutation.entry import Entry
from harness.mutation.verdict import Event
from harness.records.plan import Plan
from harness.records.recording import Recording, Run
from harness.runs.driver import Budget
from harness.subjects.subject import Cause

CPU_BUDGET = Cause.CPU_BUDGET.value  # a recording's failure begins with one of these where its start ran out of a budget
WALL_BUDGET = "wall-budget"
CPU_FACTOR, WALL_FACTOR = 10, 20  # x the clean run's
MIN_CPU_S, MIN_WALL_S = 2.0, 30.0  # RLIMIT_CPU counts whole seconds, and loading alone takes a third of one


@dataclass(frozen=True, slots=True)
class Ground:
    """What a plan is recorded against."""

    overlay: Path | None = None  # a source tree in place of the subject's own
    environment: Mapping[str, str] | None = None  # added to the subject's
    relay: Mapping[str, Any] | None = None  # the fault of the relay, where the arena has one between
    direct: bool = False  # without a relay between
    fresh: bool = False  # a new interpreter for each start; False: the fastest way there is
    budgets: Mapping[str, Budget] | None = None  # by start id; a start without an entry has none


class Arena(Protocol):
    """Records plans, one subject at a time, on one core."""

    def record(self, plan: Plan, ground: Ground) -> Run:
        """Make every start of the plan and ask everything; what the subject does is in the recordings, never raised."""


def events_of(run: Run, clean: Run) -> tuple[Event, ...]:
    """Return what happened to the starts of a mutant's run besides answers; a start that fails in the clean run says nothing."""
    bad = {recording.start.id for recording in clean.recordings if recording.failure}
    made = {recording.start.id for recording in run.recordings}
    found = [_event(recording) for recording in run.recordings if recording.failure and recording.start.id not in bad]
    found += [Event.NO_START for start in run.plan.starts if start.id not in made]
    return tuple(event for event in Event if event in found)


def budgets_of(clean: Run, entry: Entry | None = None) -> dict[str, Budget]:
    """Return the budget of each start: 10 x the clean run's CPU, max(30 s, 20 x) of its wall time, or what the entry says."""
    cpu = entry.cpu_budget_s if entry else None
    wall = entry.wall_budget_s if entry else None
    return {
        recording.start.id: Budget(
            cpu_s=math.ceil(cpu or max(MIN_CPU_S, CPU_FACTOR * recording.cpu_seconds)),
            wall_s=wall or max(MIN_WALL_S, WALL_FACTOR * recording.seconds),
        )
        for recording in clean.recordings
    }


def log_of(run: Run) -> list[str]:
    """Return what a person wants to see of each start that failed, line by line; a failure holds the subject's last lines."""
    return [
        line
        for recording in run.recordings
        if recording.failure
        for line in f"{recording.start.id}: {recording.failure}".split("\n")
    ]


def _event(recording: Recording) -> Event:
    if recording.failure.startswith((CPU_BUDGET, WALL_BUDGET)):
        return Event.TIMEOUT
    return Event.DIED if recording.ready_line else Event.NO_START
