"""The laws on one request after another: probes alone and after each disturbance, and clients that leave."""

from __future__ import annotations

import msgspec
import pytest

from harness.records.finding import Verdict
from harness.records.plan import Request, Start, Tier
from harness.records.recording import Answer, Round
from tests.harness.checks.ideal import altered
from tests.harness.checks.replying import blind, changed, findings, places, replanned, result, run_of, without

ORDER, CANCEL = "request-order", "cancel-frees"
AFTER_LONG = "hit-1/24/after-long"
ALONE = "hit-1/24/alone"
PROBE = "hit-1/24"
LEAVING = "main-1/400/stream=True/stream_options=include_usage/leave=3"
AFTER_LEAVING = "hit-1/24/after-leaving-3"
GATE_STARTS = ["order/lookup", "order/draft", "cached/plain", "cached/lookup", "cached/draft"]
GATE_KINDS = ["failed", "long", "short", "stopped", "sampled", "refused", "over-long", "cancelled"]


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("check_id", [ORDER, CANCEL])
def test_a_right_engine_has_no_finding_on_any_tier(check_id: str, tier: Tier) -> None:
    got, plan = result(check_id, run_of(check_id, tier)), run_of(check_id, tier).plan
    assert got.findings == ()
    references = {start.reference for start in plan.starts} if check_id == ORDER else set()
    assert {start.id for start in plan.starts} - references == set(got.examined)


def test_each_disturbance_of_the_gate_has_the_probe_behind_it() -> None:
    run = run_of(ORDER, Tier.GATE)
    asked = {start.id: [request.role for request in start.requests] for start in run.plan.starts}
    assert asked.pop("plain") == [""]
    roles = ["alone", *(role for kind in GATE_KINDS for role in (kind, "probe"))]
    assert asked == {start: [*roles, *(["probe"] if start.startswith("cached") else [])] for start in GATE_STARTS}


@pytest.mark.parametrize("kind", GATE_KINDS)
def test_a_reply_that_depends_on_the_request_before_it_is_found(kind: str) -> None:
    name = f"hit-1/24/after-{kind}"
    found = findings(ORDER, altered(run_of(ORDER, Tier.GATE), "order/draft", name, reply={"ids": (1, 2, 3)}))
    assert [(one.start, one.request, one.verdict) for one in found] == [("order/draft", name, Verdict.MISMATCH)]


def test_an_index_that_survives_changes_only_the_drafts_and_is_found_with_its_round() -> None:
    run = run_of(ORDER)
    rounds = run.recordings[0].answer(AFTER_LONG).rounds  # type: ignore[union-attr]
    assert rounds is not None
    stale = (*rounds[:1], Round((91, *rounds[1].drafted_ids[1:]), rounds[1].num_accepted), *rounds[2:])
    (one,) = findings(ORDER, altered(run, "order/lookup", AFTER_LONG, rounds=stale))
    assert (one.start, one.request, one.first_difference) == ("order/lookup", AFTER_LONG, 1)
    assert one.message == f"rounds of {ALONE} differs"


@pytest.mark.parametrize("field", ["rounds", "drafted", "accepted", "plain", "cached", "reason", "fallback"])
def test_each_count_of_a_probe_is_compared(field: str) -> None:
    value = "other" if field == "reason" else 77
    (one,) = findings(ORDER, altered(run_of(ORDER), "order/draft", AFTER_LONG, counts={field: value}))
    assert one.message == f"{field} of the path of {ALONE} differs"
    assert one.got == {field: value}


def test_several_counts_that_differ_are_one_finding() -> None:
    (one,) = findings(ORDER, altered(run_of(ORDER), "order/draft", AFTER_LONG, counts={"rounds": 1, "plain": 2}))
    assert one.message == f"rounds, plain of the path of {ALONE} differ"


def test_counts_that_are_gone_after_a_disturbance_are_found() -> None:
    (one,) = findings(ORDER, altered(run_of(ORDER), "order/draft", AFTER_LONG, counts=None))
    assert one.message == f"counts of {ALONE} differs"


def test_a_probe_past_its_own_deadline_is_found() -> None:
    run = altered(run_of(ORDER), "order/draft", AFTER_LONG, status=None, failure="deadline", reply=None)
    (one,) = findings(ORDER, run)
    assert (one.request, one.got) == (AFTER_LONG, "deadline")


@pytest.mark.parametrize("kind", [kind for kind in GATE_KINDS if kind != "cancelled"])
def test_a_disturbance_past_its_own_deadline_is_found(kind: str) -> None:
    def silent(_start: Start, request: Request, one: Answer) -> Answer:
        return Answer(request.id, None, "deadline") if kind in request.roles else one

    found = findings(ORDER, changed(run_of(ORDER, Tier.GATE), silent))
    assert [(one.start, one.message, one.got) for one in found] == [(start, "unanswered", "deadline") for start in GATE_STARTS]


@pytest.mark.parametrize(("kind", "want", "status"), [("failed", 500, 200), ("refused", 400, 200), ("long", 200, 400)])
def test_a_disturbance_that_did_not_happen_is_blind(kind: str, want: int, status: int) -> None:
    def other(_start: Start, request: Request, one: Answer) -> Answer:
        return msgspec.structs.replace(one, status=status) if kind in request.roles else one

    found = findings(ORDER, changed(run_of(ORDER, Tier.GATE), other))
    of_it = [(one.start, one.verdict, one.got) for one in found if one.want == want]
    assert of_it == [(start, Verdict.BLIND, status) for start in GATE_STARTS]


def test_a_client_that_did_not_leave_disturbs_nothing_and_is_blind() -> None:
    def stayed(_start: Start, request: Request, one: Answer) -> Answer:
        return msgspec.structs.replace(one, status=200, failure="") if "cancelled" in request.roles else one

    found = findings(ORDER, changed(run_of(ORDER, Tier.GATE), stayed))
    assert {one.verdict for one in found} == {Verdict.BLIND}


def test_a_probe_that_is_not_the_first_request_of_its_start_is_not_alone() -> None:
    def reordered(start: Start) -> Start:
        if start.id != "order/lookup":
            return start
        return msgspec.structs.replace(start, requests=tuple(sorted(start.requests, key=lambda one: one.id != AFTER_LONG)))

    found = findings(ORDER, replanned(run_of(ORDER), reordered))
    assert [(one.start, one.verdict, one.got) for one in found] == [("order/lookup", Verdict.BLIND, [AFTER_LONG])]


def test_probes_without_the_same_probe_alone_prove_nothing() -> None:
    found = findings(ORDER, without(run_of(ORDER), lambda request: "alone" in request.roles))
    assert {one.verdict for one in found} == {Verdict.BLIND}
    assert {one.start for one in found} == {"order/lookup", "order/draft"}


def test_a_probe_on_a_cached_draft_arm_goes_the_path_of_the_rules_and_not_that_of_the_probe_alone() -> None:
    run, name = run_of(ORDER, Tier.GATE), f"{PROBE}/after-itself"
    (cached,) = (recording for recording in run.recordings if recording.start.id == "cached/draft")
    alone, after = cached.answer(ALONE), cached.answer(name)
    assert alone is not None and alone.counts is not None and after is not None and after.counts is not None
    assert (alone.counts.reason, alone.counts.cached, alone.counts.drafted > 0) == ("-", 0, True)
    assert (after.counts.reason, after.counts.cached, after.counts.drafted) == ("no-taps", 15, 0)
    changes = {"reason": "-", "drafted": alone.counts.drafted}
    (one,) = findings(ORDER, altered(run, "cached/draft", name, counts=changes))
    assert (one.start, one.request, one.message) == (
        "cached/draft",
        name,
        "drafted, reason of the path that the rules give differ",
    )


def test_what_a_cached_arm_says_it_resumed_from_is_left_to_its_own_law() -> None:
    run = altered(run_of(ORDER, Tier.GATE), "cached/lookup", f"{PROBE}/after-long", counts={"cached": 3})
    assert findings(ORDER, run) == ()


@pytest.mark.parametrize("lacking", ["reports_counts", "returns_ids"])
def test_of_a_cached_arm_that_does_not_tell_what_a_request_leaves_only_the_reply_is_held(lacking: str) -> None:
    def silenced(_start: Start, _request: Request, answer: Answer) -> Answer:
        if lacking == "reports_counts":
            return msgspec.structs.replace(answer, counts=None, usage_counts=None, rounds=None)
        reply = None if answer.reply is None else msgspec.structs.replace(answer.reply, ids=None)
        return msgspec.structs.replace(answer, reply=reply)

    run, name = changed(run_of(ORDER, Tier.GATE), silenced), f"{PROBE}/after-long"
    run = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, **{lacking: False}))
    assert findings(ORDER, run) == ()
    assert "cached/draft" in result(ORDER, run).examined
    other = altered(run, "cached/draft", name, reply={"text": "another"})
    assert [(one.start, one.request, one.verdict) for one in findings(ORDER, other)] == [("cached/draft", name, Verdict.MISMATCH)]


def test_a_start_that_fails_first_is_compared_with_the_same_arm_alone_elsewhere() -> None:
    run = run_of(ORDER, Tier.DEEP)
    name = "miss-1/24/after-failed"
    (one,) = findings(ORDER, altered(run, "fail-1/lookup", name, counts={"drafted": 3}))
    assert (one.start, one.request, one.want, one.got) == ("fail-1/lookup", name, {"drafted": 0}, {"drafted": 3})


def test_a_cancelled_request_that_goes_on_to_its_budget_is_found() -> None:
    changes = {"tokens": 400, "plain": 399}
    found = findings(CANCEL, altered(run_of(CANCEL), "plain", LEAVING, counts=changes))
    assert [(one.start, one.request, one.got) for one in found] == [("plain", LEAVING, 400)]


@pytest.mark.parametrize(
    ("changes", "got"),
    [({"reason": "-"}, "-"), ({"path": "plain"}, "plain"), ({"plain": 90}, None), ({"accepted": 0, "plain": 0, "rounds": 0}, 3)],
)
def test_each_count_of_a_cancelled_request_is_held_to_its_rule(changes: dict[str, object], got: object) -> None:
    run = run_of(CANCEL)
    (one,) = findings(CANCEL, altered(run, "lookup", LEAVING, counts=changes))
    assert (one.start, one.request, one.verdict) == ("lookup", LEAVING, Verdict.MISMATCH)
    if got is not None:
        assert one.got == got


def test_a_cancelled_request_without_its_line_is_found() -> None:
    (one,) = findings(CANCEL, altered(run_of(CANCEL), "lookup", LEAVING, counts=None))
    assert one.message == "no counts came for a request whose client left"


def test_an_engine_that_a_cancelled_request_keeps_is_found_at_the_next_one() -> None:
    run = altered(run_of(CANCEL), "lookup", AFTER_LEAVING, status=None, failure="deadline", reply=None)
    (one,) = findings(CANCEL, run)
    assert (one.request, one.got) == (AFTER_LEAVING, "deadline")


def test_a_path_that_a_cancelled_request_changes_is_found() -> None:
    (one,) = findings(CANCEL, altered(run_of(CANCEL), "lookup", AFTER_LEAVING, counts={"drafted": 99}))
    assert (one.request, one.got) == (AFTER_LEAVING, {"drafted": 99})


def test_a_client_that_never_left_proves_nothing() -> None:
    run = altered(run_of(CANCEL), "lookup", LEAVING, status=200, failure="")
    found = findings(CANCEL, run)
    assert [(one.start, one.verdict) for one in found] == [("lookup", Verdict.BLIND)]


def test_a_cancelled_request_that_was_never_answered_is_found() -> None:
    found = findings(CANCEL, altered(run_of(CANCEL), "lookup", LEAVING, failure="deadline"))
    assert places(found) == [("lookup", LEAVING)]
    assert blind(found) == []
