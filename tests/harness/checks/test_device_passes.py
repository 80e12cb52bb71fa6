from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checks.judge import judge
from harness.records.finding import Finding, Verdict
from harness.records.plan import Tier
from harness.records.recording import DeviceEvent, Run, Trace
from tests.harness.checks.families import blind, check_of, findings, plan_of, result, run_of
from tests.harness.checks.ideal import Fault, all_streams, altered, answer_plan, submit
from tests.harness.checks.script import Script
from tests.harness.checks.tracing import Events, with_events, with_trace

CHECK = "device-passes"
HIT, MAIN = "hit-1/24", "main-1/5"


def one_more(request_id: str) -> Any:
    return lambda events: (*events, submit(request_id))


def one_fewer(request_id: str) -> Any:
    def change(events: Events) -> Events:
        place = next(index for index, event in enumerate(events) if event.call == "ioctl" and event.request_id == request_id)
        return events[:place] + events[place + 1 :]

    return change


def only(run: Run) -> Finding:
    (found,) = findings(CHECK, run)
    assert found.verdict is Verdict.DEVICE
    return found


@pytest.mark.parametrize("tier", [Tier.MUTATION, Tier.GATE])
def test_a_right_engine_submits_each_of_its_passes_once(tier: Tier) -> None:
    got = result(CHECK, run_of(CHECK, tier=tier))
    assert got.findings == ()
    assert set(got.examined) >= {"npu/plain", "npu/lookup"}


@pytest.mark.parametrize("start_id", ["npu/plain", "npu/lookup"])
@pytest.mark.parametrize(("change", "difference"), [(one_more, 1), (one_fewer, -1)], ids=["one more", "one fewer"])
def test_one_submit_too_many_or_too_few_in_a_request_is_a_finding(start_id: str, change: Any, difference: int) -> None:
    found = only(with_events(CHECK, start_id, change(MAIN)))
    assert (found.start, found.request, found.got - found.want) == (start_id, MAIN, difference)
    assert found.message.startswith("submits are not its passes (prompt=16 cached=0 rounds=")


def test_one_pass_too_many_in_each_round_is_a_finding_for_each_request_with_rounds() -> None:
    run = run_of(CHECK)
    (recording,) = (one for one in run.recordings if one.start.id == "npu/lookup")
    rounds = {one.request_id: one.counts.rounds or 0 for one in recording.answers if one.counts}
    assert rounds[HIT] > 1
    extra = tuple(submit(name) for name, number in rounds.items() for _ in range(number))
    found = findings(CHECK, with_events(CHECK, "npu/lookup", lambda events: (*events, *extra)))
    assert {one.request: one.got - one.want for one in found} == {name: number for name, number in rounds.items() if number}


def test_the_warm_up_is_one_submit_and_nothing_else_is_outside_of_requests() -> None:
    for change, number in ((one_more(""), 2), (one_fewer(""), 0)):
        found = only(with_events(CHECK, "npu/plain", change))
        assert (found.start, found.request, found.want, found.got) == ("npu/plain", "", 1, number)


def test_a_submit_moved_from_one_request_to_another_is_a_finding_of_both() -> None:
    found = findings(CHECK, with_events(CHECK, "npu/plain", lambda events: one_more(MAIN)(one_fewer(HIT)(events))))
    assert [(one.request, one.got - one.want) for one in found] == [(HIT, -1), (MAIN, 1)]


def test_prompts_are_prefilled_in_chunks_of_the_device_s_rows_and_a_cached_part_is_not() -> None:
    run = altered(run_of(CHECK), "npu/plain", MAIN, counts={"cached": 8})
    found = only(run)
    assert (found.request, found.got - found.want) == (MAIN, 1)
    assert findings(CHECK, with_events(CHECK, "npu/plain", one_fewer(MAIN), run)) == ()


def test_a_width_that_is_not_the_arm_s_predicts_other_chunks() -> None:
    run = run_of(CHECK)
    arms = {name: msgspec.structs.replace(facts, width=0) for name, facts in run.declared.arms.items()}
    found = findings(CHECK, msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, arms=arms)))
    assert {(one.request, one.got - one.want) for one in found} == {(HIT, 1), (MAIN, 1)}


def test_submits_to_another_path_are_not_counted_here() -> None:
    other = submit(MAIN, path="/dev/accel/accel1")
    assert findings(CHECK, with_events(CHECK, "npu/plain", lambda events: (*events, other))) == ()


def test_a_submit_by_a_child_is_a_finding() -> None:
    def change(events: Events) -> Events:
        return (*events[:-1], msgspec.structs.replace(events[-1], by_child=True))

    assert only(with_events(CHECK, "npu/plain", change)).message == "another process than its own submits to its device"


def test_a_refused_request_may_submit_nothing() -> None:
    run = altered(run_of(CHECK), "npu/plain", MAIN, status=400, reply=None, counts=None)
    found = only(run)
    assert (found.request, found.want, found.message) == (MAIN, 0, "submits are not its passes (refused)")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": None}, "no counts came with the answer"),
        ({"status": None, "failure": "reset", "counts": None}, "not served (status None)"),
        ({"status": 500, "reply": None, "counts": {"reason": "failed"}}, "not served (status 500)"),
    ],
    ids=["no counts", "unanswered", "failed"],
)
def test_an_asked_request_that_says_nothing_of_its_passes_is_a_finding(changes: dict[str, Any], message: str) -> None:
    assert only(altered(run_of(CHECK), "npu/plain", MAIN, **changes)).message == message


def test_a_request_whose_client_left_is_held_to_what_it_counted() -> None:
    left: dict[str, Any] = {"status": None, "failure": "left", "reply": None, "counts": {"reason": "cancelled"}}
    run = altered(run_of(CHECK), "npu/plain", MAIN, **left)
    assert findings(CHECK, run) == ()
    assert only(with_events(CHECK, "npu/plain", one_more(MAIN), run)).request == MAIN


def test_a_plan_without_a_round_on_a_device_is_blind() -> None:
    plan = plan_of(CHECK)
    plain_only = msgspec.structs.replace(plan, starts=(plan.start("npu/plain"),))
    run = answer_plan(plain_only, Script(all_streams()))
    assert blind(findings(CHECK, run)) == ["no request of the plan must make a round on a device"]


def test_an_engine_that_never_drafts_is_no_plan_that_asks_too_little() -> None:
    assert blind(findings(CHECK, run_of(CHECK, Fault.NOTHING_DRAFTED))) == []


def test_a_blind_trace_is_blind_and_its_submits_are_not_believed() -> None:
    run = with_trace(CHECK, "npu/plain", with_events(CHECK, "npu/plain", one_more(MAIN)), blind=("a line is missing",))
    assert [(one.start, one.verdict, one.got) for one in findings(CHECK, run)] == [
        ("npu/plain", Verdict.BLIND, "a line is missing")
    ]


def test_host_arms_are_not_looked_at() -> None:
    stray = DeviceEvent("ioctl", "/dev/accel/accel0", 9, "0")
    run = with_trace("device-opens", "plain", events=(stray,))
    run = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, checks=(CHECK,)))
    assert [one.start for one in findings(CHECK, run) if one.start == "plain"] == []


def test_without_tracing_it_is_not_tested_and_not_passed() -> None:
    run = run_of(CHECK)
    untraced = tuple(msgspec.structs.replace(one, trace=Trace(traced=False)) for one in run.recordings)
    plan = msgspec.structs.replace(run.plan, checks=(CHECK, "accounting"))
    got = judge(msgspec.structs.replace(run, plan=plan, recordings=untraced), [check_of("accounting"), check_of(CHECK)])
    assert (got.verdict, set(got.not_tested)) == (Verdict.NOT_TRACED, {CHECK})
