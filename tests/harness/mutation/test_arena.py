from __future__ import annotations

import msgspec
import pytest

from harness.mutation.arena import budgets_of, events_of, log_of
from harness.mutation.verdict import Event
from harness.records.budget import Budget
from harness.records.plan import Plan, Tier
from harness.records.recording import Declared, Recording, Run, Trace
from tests.harness.mutation.toy import LOOKUP, PLAIN, entry


def recording(failure: str = "", ready_line: str = "[ready]", cpu_seconds: float = 0.5, seconds: float = 1.0) -> Recording:
    return Recording(
        subject="toy",
        start=PLAIN,
        answers=(),
        trace=Trace(traced=True),
        log=("first", "last"),
        exit_status=None,
        failure=failure,
        ready_line=ready_line,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
    )


def run(*recordings: Recording, starts: tuple[object, ...] = (PLAIN,)) -> Run:
    plan = Plan(tier=Tier.MUTATION, recipe="toy@0", starts=starts, checks=())  # type: ignore[arg-type]
    return Run(plan=plan, subject="toy", declared=Declared(arms={}), recordings=recordings)


CLEAN = run(recording())


@pytest.mark.parametrize(
    ("failure", "ready_line", "event"),
    [
        ("died with status 1", "[ready]", Event.DIED),
        ("never ready", "", Event.NO_START),
        ("cpu-budget: 3 s", "[ready]", Event.TIMEOUT),
        ("cpu-budget: 3 s", "", Event.TIMEOUT),
        ("wall-budget: 30 s", "[ready]", Event.TIMEOUT),
    ],
)
def test_a_failed_start_is_an_event(failure: str, ready_line: str, event: Event) -> None:
    assert events_of(run(recording(failure, ready_line)), CLEAN) == (event,)


def test_a_start_that_answered_is_no_event_and_one_without_recording_never_started() -> None:
    assert events_of(run(recording()), CLEAN) == ()
    assert events_of(run(recording(), starts=(PLAIN, LOOKUP)), CLEAN) == (Event.NO_START,)


def test_a_start_that_fails_in_the_clean_run_too_is_no_event_of_the_mutant() -> None:
    assert events_of(run(recording("never ready", "")), run(recording("never ready", ""))) == ()


def test_the_worst_event_is_told_first_and_once() -> None:
    events = events_of(run(recording("died"), recording("cpu-budget"), recording("died again")), CLEAN)
    assert events == (Event.TIMEOUT, Event.DIED)


def test_a_budget_is_ten_times_the_cpu_and_twenty_times_the_wall_with_a_floor() -> None:
    assert budgets_of(run(recording(cpu_seconds=0.5, seconds=3.0))) == {"plain": Budget(cpu_s=5, wall_s=60.0)}
    assert budgets_of(run(recording(cpu_seconds=0.01, seconds=0.1))) == {"plain": Budget(cpu_s=2, wall_s=30.0)}


def test_an_entry_may_set_its_own_budget() -> None:
    own = msgspec.structs.replace(entry("a", "b"), cpu_budget_s=3.5, wall_budget_s=4.0)
    assert budgets_of(run(recording()), own) == {"plain": Budget(cpu_s=4, wall_s=4.0)}


def test_the_log_shows_the_lines_of_what_failed_and_of_nothing_else() -> None:
    assert log_of(run(recording())) == []
    assert log_of(run(recording("died; its last lines:\n  last"))) == ["plain: died; its last lines:", "  last"]
