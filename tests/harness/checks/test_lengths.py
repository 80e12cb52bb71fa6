"""accept-lengths: what a plan promises of its rounds, and what the subject's own lists show of it."""

from __future__ import annotations

import msgspec
import pytest

from harness.checks.evidence import Evidence
from harness.checks.judge import apply, judge
from harness.checks.lengths import CHECKS
from harness.checks.registry import ALL_CHECKS
from harness.plans.build import build_plan
from harness.plans.lengths import SLICES
from harness.records.finding import CheckResult, Finding, Verdict
from harness.records.plan import Tier
from harness.records.recording import Answer, Round, Run
from tests.harness.checks.ideal import Fault, fixture
from tests.harness.checks.replying import answered

CHECK = "accept-lengths"
MISSING = "things that the plan promises of its rounds did not occur"


def run_of(*faults: Fault, tier: Tier = Tier.MUTATION) -> Run:
    """The check's plan, answered by the ideal engine."""
    return answered(build_plan(fixture(), tier, SLICES, [CHECK]), *faults)


def result(run: Run) -> CheckResult:
    return apply(CHECKS[0], Evidence(run))


def findings(run: Run) -> tuple[Finding, ...]:
    return result(run).findings


def rewritten(run: Run, start_id: str, change: object) -> Run:
    """The run with each answer of a start changed."""
    assert callable(change)
    recordings = tuple(
        msgspec.structs.replace(one, answers=tuple(map(change, one.answers))) if one.start.id == start_id else one
        for one in run.recordings
    )
    return msgspec.structs.replace(run, recordings=recordings)


def without_request(run: Run, keep: object) -> Run:
    assert callable(keep)
    starts = tuple(msgspec.structs.replace(start, requests=tuple(filter(keep, start.requests))) for start in run.plan.starts)
    return msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, starts=starts))


@pytest.mark.parametrize("tier", [Tier.MUTATION, Tier.GATE])
def test_a_right_engine_shows_all_that_is_promised_on_lookup_and_pack(tier: Tier) -> None:
    got = result(run_of(tier=tier))
    assert got.findings == ()
    wanted = {"lookup", "draft"} if tier is Tier.MUTATION else {"lookup", "draft", "k-7/lookup", "k-4/draft"}
    assert set(got.examined) == wanted


def test_one_draft_too_few_in_each_round_never_shows_the_longest_length_on_either_arm() -> None:
    found = findings(run_of(Fault.CAPPED_LOW))
    assert {one.start for one in found} == {"lookup", "draft"}
    assert {one.verdict for one in found} == {Verdict.BLIND}
    by_start = {one.start: one.want for one in found}
    assert "4 of 4 accepted" in by_start["lookup"]
    assert "7 of 7 accepted" in by_start["draft"]


def lists(*rounds: Round) -> object:
    return lambda answer: msgspec.structs.replace(answer, rounds=rounds or None)


def test_a_subject_whose_lists_say_the_same_length_always_shows_nothing_of_the_rest() -> None:
    (got,) = findings(rewritten(run_of(), "draft", lists(Round((1, 2, 3, 4, 5, 6, 7), 7))))
    assert MISSING in got.message
    assert "0 of 7 accepted" in got.want
    assert "7 of 7 accepted" not in got.want


def test_answers_without_a_list_show_nothing() -> None:
    (got,) = findings(rewritten(run_of(), "lookup", lists()))
    assert "4 of 4 accepted" in got.want
    assert got.got == []


def swapped(answer: Answer) -> Answer:
    """The rounds of a reply in the other order: every length is there, and other turns."""
    return msgspec.structs.replace(answer, rounds=tuple(reversed(answer.rounds or ())))


def test_turns_from_one_length_to_the_next_are_held_to_what_is_promised_too() -> None:
    (got,) = findings(rewritten(run_of(), "lookup", swapped))
    assert [shape for shape in got.want if "then" in shape]
    assert not [shape for shape in got.want if " of 4 " in shape]


def stopped_elsewhere(answer: Answer) -> Answer:
    """Stops that are completed by a token of the base's own, by the counts."""
    reply, counts = answer.reply, answer.counts
    assert reply is not None
    assert counts is not None
    if not isinstance(reply.stop_reason, str):
        return answer
    return msgspec.structs.replace(answer, counts=msgspec.structs.replace(counts, plain=(counts.plain or 0) - 1))


def test_a_stop_that_no_accepted_draft_completes_is_missed() -> None:
    (got,) = findings(rewritten(run_of(), "draft", stopped_elsewhere))
    assert got.want == ["an accepted draft completes a stop"]


@pytest.mark.parametrize(
    ("start_id", "shape"),
    [("lookup", "an accepted draft completes a stop"), ("draft", "an accepted draft completes a stop")],
)
def test_a_plan_that_promises_too_little_is_blind_and_names_what_is_missing(start_id: str, shape: str) -> None:
    run = without_request(run_of(), lambda request: "stop" not in (request.body or {}))
    found = {one.start: one for one in findings(run)}
    assert found[start_id].message == "the plan does not promise all that must occur"
    assert found[start_id].want == [shape]


def test_a_pack_that_nothing_is_known_of_is_blind_and_says_why() -> None:
    run = msgspec.structs.replace(run_of(), expectations=None)
    found = [one for one in findings(run) if one.start == "draft"]
    assert found
    assert all("nothing predicts its rounds (no expectations came with the run)" in one.message for one in found)


def test_a_reply_that_was_not_served_is_a_finding_at_its_request() -> None:
    run = rewritten(run_of(), "lookup", lambda answer: msgspec.structs.replace(answer, status=500))
    assert {(one.start, bool(one.request)) for one in findings(run)} >= {("lookup", True)}


def test_a_subject_that_lists_no_rounds_is_predicted_only() -> None:
    run = run_of()
    silent = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, reports_rounds=False))
    judgement = judge(silent, ALL_CHECKS)
    assert judgement.not_tested[CHECK] == "predicted only: it does not list its rounds"


def test_the_plain_arm_is_asked_for_the_others_sake_alone() -> None:
    run = run_of()
    assert "plain" not in result(run).examined
    assert Evidence(run).case("plain", "main-1/24") is not None
