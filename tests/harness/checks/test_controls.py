from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checks import controls as checks
from harness.checks.judge import judge
from harness.plans import controls as plans
from harness.records.finding import Verdict
from harness.records.recording import DeviceEvent, Run, Trace
from tests.harness.checks.families import blind, check_of, findings, places, result, run_of
from tests.harness.checks.ideal import DECLARED, DECOYS, Fault, altered

CONTROLS = ("control-repeat", "control-tracer", "control-counts", "control-canary")
SAMPLED = "main-1/24/seed=7/temperature=0.8"


def with_control(run: Run, **changes: Any) -> Run:
    """Return the run with another trace of the decoys."""
    assert run.tracer_control is not None
    return msgspec.structs.replace(run, tracer_control=msgspec.structs.replace(run.tracer_control, **changes))


def seen(path: str, call: str = "openat") -> DeviceEvent:
    return DeviceEvent(call=call, path=path, tid=3, result="-1 ENOENT")


@pytest.mark.parametrize("check_id", CONTROLS)
def test_a_right_engine_under_a_tracer_that_sees_passes_the_controls(check_id: str) -> None:
    got = result(check_id, run_of(check_id))
    assert got.findings == ()
    assert sum(got.examined.values()) > 0


@pytest.mark.parametrize("check_id", ["control-repeat", "control-counts", "control-canary"])
def test_a_control_whose_answers_never_came_is_no_pass(check_id: str) -> None:
    run = msgspec.structs.replace(run_of(check_id), recordings=())
    assert findings(check_id, run)


# control-repeat


@pytest.mark.parametrize(
    "changes",
    [{"reply": {"text": "x"}}, {"reply": {"stop_reason": "x"}}, {"saw_done": True}, {"counts": {"plain": 3}}, {"body": {}}],
)
def test_a_second_plain_process_that_answers_otherwise_is_inconclusive(changes: dict[str, Any]) -> None:
    got = findings("control-repeat", altered(run_of("control-repeat"), "repeat/plain", "main-1/24", **changes))
    assert places(got) == [("repeat/plain", "main-1/24")]
    assert got[0].verdict is Verdict.INCONCLUSIVE


def test_times_and_response_ids_may_differ_between_two_processes() -> None:
    body = {"id": "cmpl-other", "created": 999}
    clean = run_of("control-repeat")
    run = altered(clean, "repeat/plain", "main-1/24", seconds=9.0, reply={"response_id": "cmpl-other"})
    (recording,) = (one for one in run.recordings if one.start.id == "plain")
    answer = recording.answer("main-1/24")
    assert answer is not None
    run = altered(run, "repeat/plain", "main-1/24", body={**answer.body, **body})
    assert findings("control-repeat", run) == ()


# control-tracer


def test_a_decoy_that_was_not_seen_blinds_the_run() -> None:
    run = with_control(run_of("control-tracer"), events=tuple(seen(path) for path in DECOYS[1:]))
    (got,) = findings("control-tracer", run)
    assert (got.verdict, got.want, got.message) == (Verdict.BLIND, DECOYS[0], "a decoy that opened a watched path was not seen")


def test_a_decoy_seen_by_nothing_but_an_ioctl_was_not_seen_open() -> None:
    events = (*(seen(path) for path in DECOYS[1:]), seen(DECOYS[0], "ioctl"))
    assert len(blind(findings("control-tracer", with_control(run_of("control-tracer"), events=events)))) == 1


@pytest.mark.parametrize("path", ["/etc/passwd", DECOYS[0]])
def test_an_open_that_no_decoy_made_blinds_the_run(path: str) -> None:
    events = (*(seen(one) for one in DECOYS), seen(path))
    got = findings("control-tracer", with_control(run_of("control-tracer"), events=events))
    assert blind(got) == ["an open was reported that no decoy made"]


@pytest.mark.parametrize("changes", [{"blind": ("a line of the log cannot be read",)}, {"num_opens": 0}, {"traced": False}])
def test_a_tracer_that_could_not_see_its_decoys_blinds_the_run(changes: dict[str, Any]) -> None:
    assert len(blind(findings("control-tracer", with_control(run_of("control-tracer"), **changes)))) == 1


@pytest.mark.parametrize("changes", [{"tracer_control": None}, {"decoys": ()}])
def test_a_tracer_that_was_never_held_against_decoys_blinds_the_run(changes: dict[str, Any]) -> None:
    run = msgspec.structs.replace(run_of("control-tracer"), **changes)
    assert blind(findings("control-tracer", run)) == ["the tracer was never held against decoys"]


def test_a_run_without_tracing_is_not_traced_and_not_blind() -> None:
    run = run_of("control-tracer")
    recordings = tuple(msgspec.structs.replace(one, trace=Trace(traced=False)) for one in run.recordings)
    got = judge(msgspec.structs.replace(run, recordings=recordings, tracer_control=None, decoys=()), [check_of("control-tracer")])
    assert set(got.not_tested) == {"control-tracer"}
    assert got.findings == ()


# control-counts


def test_a_log_line_read_as_something_else_than_the_response_blinds_the_run() -> None:
    got = findings("control-counts", run_of("control-counts", Fault.LINE_DIFFERS))
    assert {(one.start, one.verdict) for one in got} == {(arm, Verdict.BLIND) for arm in ("plain", "lookup", "draft")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": None}, "no counts were read for it"),
        ({"usage_counts": None}, "no second witness of its counts, which was asked for"),
    ],
)
def test_an_answer_without_one_of_its_two_counts_blinds_the_run(changes: dict[str, Any], message: str) -> None:
    (got,) = findings("control-counts", altered(run_of("control-counts"), "draft", "main-1/5", **changes))
    assert (got.start, got.message, got.verdict) == ("draft", message, Verdict.BLIND)


def test_an_answered_request_of_any_check_must_have_its_counts() -> None:
    run = altered(run_of("hit-miss-decoy"), "lookup", "miss-1/24", counts=None)
    assert ("lookup", "miss-1/24") in places(findings("control-counts", run))


# control-canary


@pytest.mark.parametrize("arm", ["lookup", "draft"])
def test_a_canary_that_must_engage_and_does_not_blinds_the_run(arm: str) -> None:
    run = altered(run_of("control-canary"), arm, "hit-1/5", counts={"path": "plain", "rounds": 0})
    (got,) = findings("control-canary", run)
    assert (got.start, got.message, got.verdict) == (arm, "a prompt that must engage did not", Verdict.BLIND)


@pytest.mark.parametrize("arm", ["lookup", "draft"])
def test_a_canary_that_must_not_engage_and_does_blinds_the_run(arm: str) -> None:
    got = findings("control-canary", run_of("control-canary", Fault.NO_GREEDY_GATE, arms=[arm]))
    assert [(one.start, one.request, one.message) for one in got] == [(arm, SAMPLED, "a request that must not engage did")]


def test_a_canary_that_engages_on_the_plain_arm_blinds_the_run() -> None:
    run = altered(run_of("control-canary"), "plain", "hit-1/5", counts={"path": "spec"})
    assert places(findings("control-canary", run)) == [("plain", "hit-1/5")]


def test_an_arm_described_as_not_engaged_has_a_canary_that_must_stay_silent() -> None:
    arms = {**DECLARED.arms, "lookup": msgspec.structs.replace(DECLARED.arms["lookup"], expect="not-engaged")}
    run = msgspec.structs.replace(run_of("control-canary"), declared=msgspec.structs.replace(DECLARED, arms=arms))
    assert places(findings("control-canary", run)) == [("lookup", "hit-1/5"), ("lookup", "repeat-1/24")]


@pytest.mark.parametrize("role", [checks.ENGAGES, checks.ABSTAINS, checks.SILENT])
def test_a_start_that_was_not_asked_one_of_the_canaries_blinds_the_run(role: str) -> None:
    run = run_of("control-canary")
    starts = tuple(
        msgspec.structs.replace(start, requests=tuple(r for r in start.requests if role not in r.roles))
        for start in run.plan.starts
    )
    run = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, starts=starts))
    assert blind(findings("control-canary", run)) == [f"the plan asks no {role} request"] * 3


def test_plan_and_check_name_the_canaries_alike() -> None:
    want = (plans.ENGAGES, plans.ABSTAINS, plans.SILENT)
    assert want == (checks.ENGAGES, checks.ABSTAINS, checks.SILENT)


def test_a_reply_of_one_token_with_drafts_blinds_the_run() -> None:
    run = altered(run_of("control-canary"), "lookup", "hit-1/1", counts={"drafted": 4})
    (got,) = findings("control-canary", run)
    assert (got.start, got.request, got.want, got.got) == ("lookup", "hit-1/1", 0, 4)


def test_of_a_subject_that_shows_drafts_alone_one_canary_that_drafts_is_enough() -> None:
    run = run_of("control-canary")
    silent = msgspec.structs.replace(run, declared=msgspec.structs.replace(DECLARED, reports_path=False))
    plain: dict[str, Any] = {"path": "plain", "rounds": 0, "drafted": 0}
    one_sings = altered(silent, "lookup", "hit-1/5", counts=plain)
    assert places(findings("control-canary", one_sings)) == []
    none_sings = altered(one_sings, "lookup", "repeat-1/24", counts=plain)
    assert places(findings("control-canary", none_sings)) == [("lookup", "hit-1/5"), ("lookup", "repeat-1/24")]


def test_a_subject_with_one_witness_of_its_counts_owes_no_second() -> None:
    run = altered(run_of("control-counts"), "lookup", "main-1/5", usage_counts=None)
    assert places(findings("control-counts", run)) == [("lookup", "main-1/5")]
    alone = msgspec.structs.replace(run, declared=msgspec.structs.replace(DECLARED, seconds_counts=False))
    assert places(findings("control-counts", alone)) == []
    unread = altered(alone, "lookup", "main-1/5", counts=None)
    assert places(findings("control-counts", unread)) == [("lookup", "main-1/5")]


def test_a_surface_without_sampling_owes_no_canary_that_abstains() -> None:
    run = run_of("control-canary")
    starts = tuple(
        msgspec.structs.replace(start, requests=tuple(one for one in start.requests if one.is_greedy))
        for start in run.plan.starts
    )
    run = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, starts=starts))
    assert {one.verdict for one in findings("control-canary", run)} == {Verdict.BLIND}
    none = {name: {"temperature": "unsupported"} for name in ("none", "lookup", "dflash")}
    greedy = msgspec.structs.replace(run, declared=msgspec.structs.replace(DECLARED, capabilities=none))
    assert findings("control-canary", greedy) == ()
