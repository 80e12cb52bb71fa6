from __future__ import annotations

import msgspec
import pytest

from harness.records.finding import Verdict
from harness.records.plan import Tier
from harness.records.recording import Run
from tests.harness.checks.families import SLICES, blind, findings, places, plan_of, result, run_of
from tests.harness.checks.ideal import DECLARED, Fault, Script, all_streams, altered, answer_plan, fixture

CHECKS = ("engaged-exactly", "abstained", "drafts-made", "hit-miss-decoy")
SAMPLED = "main-1/24/seed=7/temperature=0.8"


def without(run: Run, *request_ids: str) -> Run:
    """Return the run as if its plan had never asked these requests."""
    plan = run.plan
    starts = tuple(
        msgspec.structs.replace(start, requests=tuple(one for one in start.requests if one.id not in request_ids))
        for start in plan.starts
    )
    return msgspec.structs.replace(run, plan=msgspec.structs.replace(plan, starts=starts))


@pytest.mark.parametrize("tier", [Tier.MUTATION, Tier.GATE])
@pytest.mark.parametrize("check_id", CHECKS)
def test_a_right_engine_has_no_finding(check_id: str, tier: Tier) -> None:
    got = result(check_id, run_of(check_id, tier=tier))
    assert got.findings == ()
    assert sum(got.examined.values()) > 0


@pytest.mark.parametrize("check_id", CHECKS)
def test_a_run_whose_answers_never_came_is_no_pass(check_id: str) -> None:
    run = run_of(check_id)
    run = msgspec.structs.replace(run, recordings=())
    assert {one.start for one in findings(check_id, run)} >= {start.id for start in run.plan.starts if start.reference}


# engaged-exactly


def test_a_sampled_request_that_speculates_is_engaged_against_the_prediction_on_both_arms() -> None:
    got = findings("engaged-exactly", run_of("engaged-exactly", Fault.NO_GREEDY_GATE))
    assert places(got) == [("lookup", SAMPLED), ("draft", SAMPLED)]
    assert {(one.verdict, one.message) for one in got} == {
        (Verdict.NOT_ENGAGED, "took the speculative path, against the prediction")
    }


@pytest.mark.parametrize("arm", ["lookup", "draft"])
def test_a_greedy_request_on_the_plain_path_is_not_engaged(arm: str) -> None:
    run = altered(run_of("engaged-exactly"), arm, "hit-1/5", counts={"path": "plain", "rounds": 0, "reason": "sampled"})
    (got,) = findings("engaged-exactly", run)
    assert (got.start, got.request, got.want) == (arm, "hit-1/5", "spec")
    assert got.message == "stayed on the plain path, against the prediction"


def test_a_plain_server_that_speculates_is_engaged_against_the_prediction() -> None:
    run = altered(run_of("engaged-exactly"), "plain", "hit-1/5", counts={"path": "spec"})
    assert places(findings("engaged-exactly", run)) == [("plain", "hit-1/5")]


def test_a_line_that_says_plain_beside_verify_rounds_is_engaged() -> None:
    run = altered(run_of("engaged-exactly"), "draft", SAMPLED, counts={"rounds": 2})
    assert places(findings("engaged-exactly", run)) == [("draft", SAMPLED)]


def test_another_drafter_than_the_described_one_is_a_finding() -> None:
    run = altered(run_of("engaged-exactly"), "lookup", "hit-1/5", counts={"drafter": "dflash"})
    (got,) = findings("engaged-exactly", run)
    assert (got.want, got.got) == ("lookup", "dflash")


def test_14_of_the_16_seed_requests_engaged_is_a_finding_of_the_start() -> None:
    clean = run_of("engaged-exactly", tier=Tier.GATE)
    run = altered(clean, "draft", "main-2/5", counts={"path": "plain", "rounds": 0})
    got = findings("engaged-exactly", run)
    assert places(got) == [("draft", "main-2/5"), ("draft", "")]
    assert (got[1].want, got[1].got) == (15, 14)


def test_a_seed_request_that_engages_on_plain_is_a_finding_of_the_start() -> None:
    run = altered(run_of("engaged-exactly", tier=Tier.GATE), "plain", "main-2/5", counts={"path": "spec"})
    got = findings("engaged-exactly", run)
    assert [(one.start, one.want, one.got) for one in got if not one.request] == [("plain", 0, 1)]


@pytest.mark.parametrize(("request_id", "path"), [(SAMPLED, "plain"), ("hit-1/5", "spec")])
def test_engaged_exactly_is_blind_where_one_direction_was_never_asked(request_id: str, path: str) -> None:
    got = findings("engaged-exactly", without(run_of("engaged-exactly"), request_id))
    want = [f"arm {arm}: no request must take the {path} path, so one direction is not tested" for arm in ("lookup", "draft")]
    assert blind(got) == want


def test_an_arm_described_as_not_engaged_may_not_engage() -> None:
    arms = {**DECLARED.arms, "lookup": msgspec.structs.replace(DECLARED.arms["lookup"], expect="not-engaged")}
    run = msgspec.structs.replace(run_of("engaged-exactly"), declared=msgspec.structs.replace(DECLARED, arms=arms))
    assert places(findings("engaged-exactly", run)) == [("lookup", "hit-1/5")]
    quiet = altered(run, "lookup", "hit-1/5", counts={"path": "plain", "rounds": 0})
    assert findings("engaged-exactly", quiet) == ()


def test_a_request_that_another_check_asked_for_is_read_in_passing() -> None:
    plan = plan_of("engaged-exactly", Tier.GATE)
    starts = tuple(
        msgspec.structs.replace(
            start, requests=tuple(msgspec.structs.replace(r, checks=("x",)) if r.id == "main-2/5" else r for r in start.requests)
        )
        for start in plan.starts
    )
    run = answer_plan(msgspec.structs.replace(plan, starts=starts), Script(all_streams()))
    run = altered(run, "lookup", "main-2/5", counts={"path": "plain", "rounds": 0})
    assert ("lookup", "main-2/5") in places(findings("engaged-exactly", run))


def test_an_asked_answer_without_counts_is_a_finding_and_one_in_passing_is_not() -> None:
    run = altered(run_of("engaged-exactly"), "lookup", "hit-1/5", counts=None)
    (got, *_) = findings("engaged-exactly", run)
    assert (got.start, got.request, got.message) == ("lookup", "hit-1/5", "no counts came with the answer")


def test_the_path_is_predicted_from_the_plain_arm_and_not_from_the_arm_that_is_judged() -> None:
    run = altered(run_of("engaged-exactly"), "plain", "hit-1/5", status=500, reply=None)
    got = findings("engaged-exactly", run)
    assert [one.message for one in got if one.start == "lookup"] == ["nothing predicts its path"]


# abstained


@pytest.mark.parametrize("arm", ["lookup", "draft"])
def test_a_sampled_request_that_speculates_did_not_abstain(arm: str) -> None:
    got = findings("abstained", run_of("abstained", Fault.NO_GREEDY_GATE, arms=[arm]))
    assert set(places(got)) == {(arm, SAMPLED)}
    assert {one.message for one in got} >= {"the path differs", "the reason differs", "ids of the plain arm differs"}


def test_a_wrong_reason_for_abstaining_is_a_wrong_path() -> None:
    run = altered(run_of("abstained"), "draft", SAMPLED, counts={"reason": "-"})
    (got,) = findings("abstained", run)
    assert (got.verdict, got.want, got.got) == (Verdict.WRONG_PATH, "sampled", "-")


def test_an_abstaining_reply_is_compared_whole_and_not_over_the_shorter() -> None:
    clean = run_of("abstained")
    reply = clean.recordings[1].answers[0].reply
    assert reply is not None
    assert reply.ids is not None
    run = altered(clean, "lookup", SAMPLED, reply={"ids": reply.ids[:-1]})
    (got,) = findings("abstained", run)
    assert (got.message, got.first_difference) == ("ids of the plain arm differs", 23)


def test_abstained_is_blind_on_a_request_that_nothing_keeps_from_speculating() -> None:
    plan = plan_of("drafts-made")
    starts = tuple(
        msgspec.structs.replace(start, requests=tuple(msgspec.structs.replace(r, checks=("abstained",)) for r in start.requests))
        for start in plan.starts
    )
    run = answer_plan(msgspec.structs.replace(plan, starts=starts), Script(all_streams()))
    assert blind(findings("abstained", run))[0] == "hit-1/24: nothing forbids to speculate on it"


# drafts-made


@pytest.mark.parametrize("fault", [Fault.NOTHING_DRAFTED, Fault.NEVER_PROPOSES], ids=lambda fault: fault.name)
def test_an_engaged_reply_without_drafts_is_not_engaged(fault: Fault) -> None:
    got = findings("drafts-made", run_of("drafts-made", fault))
    assert places(got) == [("lookup", "hit-1/24"), ("lookup", "hit-2/24"), ("draft", "main-1/5"), ("draft", "main-2/2")]
    assert {one.verdict for one in got} == {Verdict.NOT_ENGAGED}
    assert got[0].got == "drafted=0 rounds=0 plain=23 reason=no-match"


def test_a_pack_reply_of_one_token_owes_no_draft_and_one_of_two_does() -> None:
    run = run_of("drafts-made", Fault.NEVER_PROPOSES, tier=Tier.GATE, arms=["draft"])
    got = {request for _, request in places(findings("drafts-made", run))}
    assert "main-2/2" in got
    assert not {request for request in got if "/1" in request}


def test_a_lookup_reply_that_was_not_built_to_hit_owes_no_draft() -> None:
    run = run_of("hit-miss-decoy", Fault.NEVER_PROPOSES)
    assert places(findings("drafts-made", run)) == [("lookup", "hit-1/24"), ("lookup", "hit-2/24")]


def test_drafts_made_is_blind_on_a_hit_prompt_in_which_the_oracle_finds_no_match() -> None:
    plan = plan_of("hit-miss-decoy")
    starts = tuple(
        msgspec.structs.replace(
            start,
            requests=tuple(
                msgspec.structs.replace(r, role="hit", checks=("drafts-made",)) for r in start.requests if r.id == "miss-1/24"
            ),
        )
        for start in plan.starts
    )
    run = answer_plan(msgspec.structs.replace(plan, starts=starts), Script(all_streams()))
    assert blind(findings("drafts-made", run)) == ["miss-1/24: it was built to hit, and the oracle finds no match in it"]


# hit-miss-decoy


def test_a_first_draft_accepted_unseen_lands_on_a_decoy() -> None:
    got = findings("hit-miss-decoy", run_of("hit-miss-decoy", Fault.FIRST_UNSEEN))
    assert places(got) == [("lookup", "decoy-1/24")]
    assert got[0].want == "drafted > 0, accepted = 0"


@pytest.mark.parametrize(
    ("request_id", "counts"),
    [
        ("hit-1/24", {"accepted": 0}),
        ("hit-1/24", {"rounds": 23}),
        ("miss-1/24", {"drafted": 1}),
        ("miss-1/24", {"plain": 22}),
        ("decoy-1/24", {"accepted": 1}),
        ("decoy-1/24", {"drafted": 0}),
    ],
)
def test_a_prompt_that_does_not_go_by_its_role_is_a_finding(request_id: str, counts: dict[str, int]) -> None:
    run = altered(run_of("hit-miss-decoy"), "lookup", request_id, counts=counts)
    (got,) = findings("hit-miss-decoy", run)
    assert (got.start, got.request, got.verdict) == ("lookup", request_id, Verdict.NOT_ENGAGED)


@pytest.mark.parametrize(
    ("start_id", "counts"),
    [
        ("always/draft", {"accepted": 0}),
        ("always/draft", {"rounds": 23}),
        ("never/draft", {"accepted": 1}),
        ("never/draft", {"drafted": 0}),
    ],
)
def test_a_pack_whose_drafts_all_land_is_a_hit_and_one_whose_never_do_a_decoy(start_id: str, counts: dict[str, int]) -> None:
    run = altered(run_of("hit-miss-decoy", tier=Tier.GATE), start_id, "main-2/24", counts=counts)
    (got,) = findings("hit-miss-decoy", run)
    assert (got.start, got.request, got.verdict) == (start_id, "main-2/24", Verdict.NOT_ENGAGED)


@pytest.mark.parametrize(("pack", "role"), [("always", "hit"), ("never", "decoy")])
def test_hit_miss_decoy_is_blind_where_packs_are_asked_and_one_kind_of_them_is_missing(pack: str, role: str) -> None:
    run = run_of("hit-miss-decoy", tier=Tier.GATE)
    starts = tuple(start for start in run.plan.starts if start.pack != pack)
    run = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, starts=starts))
    assert blind(findings("hit-miss-decoy", run)) == [f"the plan asks no {role} prompt of a pack"]


@pytest.mark.parametrize("role", ["hit", "miss", "decoy"])
def test_hit_miss_decoy_is_blind_without_a_prompt_of_each_role(role: str) -> None:
    run = run_of("hit-miss-decoy")
    ids = [f"{stream.name}/24" for stream in fixture().of_role(role)]
    assert blind(findings("hit-miss-decoy", without(run, *ids))) == [f"the plan asks no {role} prompt"]


def test_every_check_of_this_file_has_a_slice() -> None:
    assert set(CHECKS) <= set(SLICES)
