from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from harness.mutation import columns
from harness.mutation.arena import Ground
from harness.mutation.columns import ColumnArena, usable_cores, with_environment, within
from harness.oracle.expect import Oracle
from harness.records.fixture import Fixture
from harness.records.plan import Plan, Tier
from harness.records.recording import Recording, Trace
from harness.runs.driver import Budget
from harness.subjects.description import load_description
from tests.harness.mutation.test_arena import recording
from tests.harness.mutation.toy import PLAIN

DESCRIPTION = load_description("forward-serve")
FIXTURE = Fixture(recipe="toy@0", model="/nowhere", packs={}, streams=(), vocab_bound=256, block_sizes={})
PLAN = Plan(tier=Tier.MUTATION, recipe="toy@0", starts=(PLAIN,), checks=())


class Spy:
    """Stands for the driver and for both launchers; keeps what each start was given."""

    def __init__(self) -> None:
        self.starts: list[tuple[Any, ...]] = []
        self.cold: list[tuple[Any, ...]] = []
        self.machine = "this machine"

    def record_start(self, _start: Any, setting: Any, launcher: Any) -> Recording:
        self.starts.append((setting.subject, setting.overlay, dict(setting.budgets), launcher))
        return recording()

    def launcher(self, description: Any, _workdir: Any, core: Any, *, machine: Any) -> AbstractContextManager[str]:
        self.cold.append((description.environment.values.get("FAULT"), core, machine))
        return nullcontext("cold")


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    made = Spy()
    monkeypatch.setattr(columns, "record_start", made.record_start)
    monkeypatch.setattr(columns, "Launcher", made.launcher)
    return made


def arena(spy: Spy) -> ColumnArena:
    folders = columns.Located(FIXTURE)
    launcher: Any = spy
    control = Trace(traced=True, num_opens=9)
    return ColumnArena(DESCRIPTION, folders, Path("/nowhere"), 1, launcher, control, ("/dev/accel9",), Oracle(folders))


def test_a_warm_column_records_with_overlay_and_budget_and_what_the_tracer_saw_of_the_decoys(spy: Spy) -> None:
    budget = {"plain": Budget(2.0, 30.0)}
    run = arena(spy).record(PLAN, Ground(Path("/overlay"), budgets=budget))
    assert spy.starts == [("forward-serve", Path("/overlay"), budget, spy)]
    assert (spy.cold, run.decoys, run.tracer_control) == ([], ("/dev/accel9",), Trace(traced=True, num_opens=9))
    assert (run.plan, run.declared, len(run.recordings)) == (PLAN, DESCRIPTION.declared(), 1)
    assert run.expectations is not None and run.expectations.recipe == "toy@0"


def test_a_fresh_process_is_started_cold_on_the_same_core(spy: Spy) -> None:
    arena(spy).record(PLAN, Ground(fresh=True))
    assert [start[3] for start in spy.starts] == ["cold"]
    assert spy.cold == [(None, 1, "this machine")]


def test_a_switch_in_the_environment_reaches_the_subject_and_no_other(spy: Spy) -> None:
    arena(spy).record(PLAN, Ground(environment={"FAULT": "7"}))
    assert spy.cold == [("7", 1, "this machine")]
    assert "FAULT" not in DESCRIPTION.environment.values


def test_what_a_description_sets_stays_beside_a_switch() -> None:
    values = with_environment(DESCRIPTION, {"FAULT": "7"}).environment.values
    assert values == {**DESCRIPTION.environment.values, "FAULT": "7"}


def test_a_recording_over_its_wall_budget_says_so_first() -> None:
    late = recording(failure="died", seconds=31.0)
    assert within(late, Budget(2.0, 30.0)).failure == "wall-budget: 31.0 s of 30 s; died"
    assert within(recording(seconds=31.0), Budget(2.0, 30.0)).failure == "wall-budget: 31.0 s of 30 s"
    assert within(late, None) == late
    assert within(recording(seconds=29.0), Budget(2.0, 30.0)).failure == ""


def test_no_more_columns_are_opened_than_there_are_cores() -> None:
    assert len(usable_cores(1)) == 1
    assert set(usable_cores(10_000)) >= set(usable_cores(2))
