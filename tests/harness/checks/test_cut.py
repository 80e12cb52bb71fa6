"""The smallest part of a run that shows a finding: the request alone, what its law compares it with, or what came before it."""

from __future__ import annotations

import msgspec
import pytest

from harness.checks.cut import ALONE, BEHIND, _with_history, attempts_of, is_same
from harness.checks.evidence import Evidence
from harness.checks.judge import judge
from harness.checks.registry import ALL_CHECKS
from harness.records.finding import Finding
from harness.records.plan import Plan
from harness.records.recording import Run
from harness.records.replay import Attempt
from tests.harness.checks import families
from tests.harness.checks.ideal import Fault, altered, fixture
from tests.harness.checks.replying import run_of

HIT = fixture().stream("hit-1")
BY_ID = {check.id: check for check in ALL_CHECKS}


def attempts(run: Run, finding: Finding) -> tuple[Attempt, ...]:
    return attempts_of(Evidence(run), BY_ID[finding.check], finding)


def asked(plan: Plan) -> dict[str, list[str]]:
    return {start.id: [request.id for request in start.requests] for start in plan.starts}


def findings(run: Run) -> tuple[Finding, ...]:
    return judge(run, ALL_CHECKS).findings


def broken(check: str, start_id: str, request_id: str) -> tuple[Run, Finding]:
    """A run with one reply cut short, and the finding there."""
    run = altered(run_of(check), start_id, request_id, reply={"ids": (1,), "text": '"'})
    (finding, *_) = [one for one in findings(run) if (one.start, one.request) == (start_id, request_id)]
    return run, finding


def test_a_reply_that_differs_from_plains_needs_itself_and_plains_and_as_a_second_try_what_came_before() -> None:
    alone, behind = attempts(*broken("same-reply", "lookup", "decoy-1/24"))
    assert (alone.name, asked(alone.plan)) == (ALONE, {"plain": ["decoy-1/24"], "lookup": ["decoy-1/24"]})
    assert (behind.name, asked(behind.plan)) == (BEHIND, {"plain": ["decoy-1/24"], "lookup": ["hit-1/24", "decoy-1/24"]})
    assert alone.plan.checks == behind.plan.checks == ("same-reply",)


def test_the_first_request_of_a_start_has_nothing_before_it() -> None:
    (alone,) = attempts(*broken("same-reply", "lookup", "hit-1/24"))
    assert alone.name == ALONE


def test_a_finding_that_holds_without_its_own_start_is_repeated_behind_what_came_before_it() -> None:
    run, finding = broken("same-reply", "lookup", "decoy-1/24")
    before = _with_history(Evidence(run), finding, {"plain": {"hit-1/24"}})
    assert finding.request in before["lookup"]
    assert before["plain"] == {"hit-1/24"}


def test_a_reply_that_is_held_against_a_longer_one_needs_the_longer_one_too() -> None:
    run, finding = broken("budget-prefix", "lookup", "repeat-1/8")
    alone = attempts(run, finding)[0]
    assert alone.name == "with its check's others to that prompt"
    assert {"repeat-1/24", "repeat-1/8"} <= set(asked(alone.plan)["lookup"])


def test_a_law_on_what_came_before_is_repeated_with_all_of_it_and_never_alone() -> None:
    run, finding = broken("request-order", "order/lookup", "hit-1/24/after-long")
    (attempt,) = attempts(run, finding)
    wanted = [request.id for request in run.plan.start("order/lookup").requests]
    assert attempt.name == BEHIND
    assert asked(attempt.plan) == {"order/lookup": wanted[: wanted.index("hit-1/24/after-long") + 1]}


def test_neighbours_that_were_sent_at_once_are_sent_at_once_again() -> None:
    run = run_of("concurrent-neighbours")
    group = [request for request in run.plan.start("lookup").requests if request.group]
    run, finding = broken("concurrent-neighbours", "lookup", group[0].id)
    (attempt,) = attempts(run, finding)
    kept = attempt.plan.start("lookup").requests
    assert [request.id for request in kept if request.group] == [request.id for request in group]


def test_an_arm_with_a_prefix_cache_is_asked_all_that_filled_it() -> None:
    run = run_of("prefix-cache")
    (start,) = [start for start in run.plan.starts if start.arm == "cached-lookup"]
    request = [one for one in start.requests if one.expect == 200 and one.leave_after_chunks is None][-1]
    run = altered(run, start.id, request.id, counts={"cached": 999})
    (finding, *_) = [one for one in findings(run) if one.request == request.id]
    (attempt,) = attempts(run, finding)
    wanted = [one.id for one in start.requests]
    assert asked(attempt.plan)[start.id] == wanted[: wanted.index(request.id) + 1]


def test_a_finding_on_a_whole_start_needs_all_that_its_check_reads_there() -> None:
    run = families.run_of("exact-drafts", Fault.NOTHING_DRAFTED)
    finding = Finding("drafts-made", BY_ID["drafts-made"].verdict, "lookup", "", "never said")
    assert attempts(run, finding) == ()  # no part of the run shows what was not found


@pytest.mark.parametrize("fault", [Fault.EARLIEST, Fault.FIRST_UNSEEN, Fault.CAPPED_LOW], ids=lambda fault: fault.name)
def test_every_part_that_is_kept_shows_its_finding_again(fault: Fault) -> None:
    run = families.run_of("exact-drafts", fault)
    found = findings(run)
    assert found
    for finding in found:
        for attempt in attempts(run, finding):
            kept = asked(attempt.plan)
            part = msgspec.structs.replace(
                run,
                plan=attempt.plan,
                recordings=tuple(
                    msgspec.structs.replace(
                        one,
                        start=attempt.plan.start(one.start.id),
                        answers=tuple(each for each in one.answers if each.request_id in kept[one.start.id]),
                    )
                    for one in run.recordings
                    if one.start.id in kept
                ),
            )
            assert any(is_same(finding, one) for one in findings(part))


def test_findings_are_the_same_by_their_place_and_those_on_whole_starts_by_what_they_say() -> None:
    one = Finding("c", BY_ID["same-reply"].verdict, "s", "r", "ids differs")
    assert is_same(one, msgspec.structs.replace(one, message="text differs"))
    assert not is_same(one, msgspec.structs.replace(one, request="q"))
    whole = msgspec.structs.replace(one, request="")
    assert is_same(whole, whole)
    assert not is_same(whole, msgspec.structs.replace(whole, message="examined nothing"))
