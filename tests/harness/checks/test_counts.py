from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checks.counts import traced_last
from harness.records.expectation import Block
from harness.records.finding import Verdict
from harness.records.fixture import Stream
from harness.records.plan import Tier
from harness.records.recording import Answer, Counts, Round, Run
from tests.harness.checks.families import blind, findings, places, plan_of, result, run_of
from tests.harness.checks.ideal import Fault, Script, all_streams, altered, answer, answer_plan, fixture

CHECKS = ("exact-counts", "exact-drafts", "accounting")
EXACT = CHECKS[:2]
BOTH_SEE = (
    Fault.NOTHING_DRAFTED,
    Fault.STALE_STREAM,
    Fault.NO_COMMIT_AFTER_PLAIN,
    Fault.EARLIEST,
    Fault.REJECTED_INDEXED,
    Fault.FIRST_UNSEEN,
    Fault.CAPPED_LOW,
)


def answer_of(run: Run, start_id: str, request_id: str) -> Answer:
    (recording,) = (one for one in run.recordings if one.start.id == start_id)
    found = recording.answer(request_id)
    assert found is not None
    return found


def only(check_id: str, *request_ids: str) -> Run:
    """Return the check's mutation plan, cut down to these requests, answered."""
    plan = plan_of(check_id)
    starts = tuple(
        msgspec.structs.replace(start, requests=tuple(r for r in start.requests if r.id in request_ids)) for start in plan.starts
    )
    return answer_plan(msgspec.structs.replace(plan, starts=starts), Script(all_streams()))


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("check_id", CHECKS)
def test_a_right_engine_counts_as_the_oracle_does(check_id: str, tier: Tier) -> None:
    got = result(check_id, run_of(check_id, tier=tier))
    assert got.findings == ()
    assert set(got.examined) >= {"plain", "lookup"}


@pytest.mark.parametrize("check_id", CHECKS)
def test_a_run_whose_answers_never_came_is_no_pass(check_id: str) -> None:
    run = msgspec.structs.replace(run_of(check_id), recordings=())
    assert {one.start for one in findings(check_id, run)} >= {"lookup"}


@pytest.mark.parametrize("check_id", EXACT)
@pytest.mark.parametrize("fault", BOTH_SEE, ids=lambda fault: fault.name)
def test_a_fault_of_the_loop_or_of_the_head_shows_in_counts_and_in_drafts(check_id: str, fault: Fault) -> None:
    got = findings(check_id, run_of(check_id, fault, arms=["lookup"]))
    assert {start for start, _ in places(got)} == {"lookup"}
    assert {one.verdict for one in got} == {Verdict.WRONG_PATH}


def test_2_grams_before_3_grams_show_in_the_drafts_of_the_mutation_slice() -> None:
    got = findings("exact-drafts", run_of("exact-drafts", Fault.SHORT_FIRST))
    assert {start for start, _ in places(got)} == {"lookup"}


# exact-counts


@pytest.mark.parametrize(
    "fault", [Fault.CONSTANT_DRAFTED, Fault.DRAFTED_IS_WIDTH, Fault.CONSUME_LAST], ids=lambda fault: fault.name
)
def test_counts_that_were_made_up_differ_from_the_oracles(fault: Fault) -> None:
    assert findings("exact-counts", run_of("exact-counts", fault, arms=["lookup"]))


@pytest.mark.parametrize("arm", ["plain", "lookup"])
def test_one_pass_too_many_is_a_finding_on_each_arm(arm: str) -> None:
    got = findings("exact-counts", run_of("exact-counts", Fault.CONSUME_LAST, arms=[arm]))
    assert (arm, "main-1/1") in places(got)
    (first,) = (one for one in got if one.request == "main-1/1")
    assert (first.message, first.want, first.got) == ("plain: not the oracle's counts", {"plain": 0}, {"plain": 1})


@pytest.mark.parametrize("field", ["rounds", "drafted", "accepted", "plain", "tokens", "cached"])
def test_a_count_off_by_one_is_named_with_both_values(field: str) -> None:
    clean = run_of("exact-counts")
    value = getattr(answer_of(clean, "lookup", "hit-1/24").counts, field)
    (got,) = findings("exact-counts", altered(clean, "lookup", "hit-1/24", counts={field: value + 1}))
    assert (got.start, got.request) == ("lookup", "hit-1/24")
    assert (got.message, got.want, got.got) == (f"{field}: not the oracle's counts", {field: value}, {field: value + 1})


@pytest.mark.parametrize(("field", "value"), [("fallback", 3), ("reason", "no-match"), ("path", "plain"), ("drafter", "none")])
def test_a_word_of_the_line_that_is_not_the_oracles_is_a_finding(field: str, value: Any) -> None:
    (got,) = findings("exact-counts", altered(run_of("exact-counts"), "lookup", "hit-1/24", counts={field: value}))
    assert got.got == {field: value}


@pytest.mark.parametrize("check_id", EXACT)
def test_the_oracle_reads_the_plain_reply_and_not_the_reply_that_is_judged(check_id: str) -> None:
    clean = run_of(check_id)
    start = clean.plan.start("lookup")
    (request,) = (one for one in start.requests if one.id == "hit-1/24")
    strayed = Stream("hit-1", "hit", request.prompt_ids, fixture().stream("main-1").reply_ids)
    got = answer(Script((strayed,)), start, request, 1)  # consistent in itself, and not what plain says
    run = altered(clean, "lookup", "hit-1/24", reply=got.reply, counts=got.counts, rounds=got.rounds)
    assert places(findings(check_id, run)) == [("lookup", "hit-1/24")]


@pytest.mark.parametrize("check_id", EXACT)
def test_an_exact_check_is_blind_where_no_request_makes_a_round_of_a_drafter(check_id: str) -> None:
    assert blind(findings(check_id, only(check_id, "miss-1/24", "main-1/1"))) == [
        "no request of the plan must make a round of dflash: nothing was counted",
        "no request of the plan must make a round of lookup: nothing was counted",
    ]


@pytest.mark.parametrize("check_id", EXACT)
def test_an_exact_check_is_blind_where_no_arm_that_drafts_is_asked(check_id: str) -> None:
    run = only(check_id, "miss-1/24")
    plan = msgspec.structs.replace(run.plan, starts=(run.plan.start("plain"),))
    assert blind(findings(check_id, msgspec.structs.replace(run, plan=plan))) == [
        "no request of the plan must make a round: nothing was counted"
    ]


# packs, whose drafts come with the run


@pytest.mark.parametrize("check_id", EXACT)
@pytest.mark.parametrize("fault", [Fault.NOTHING_DRAFTED, Fault.FIRST_UNSEEN, Fault.CAPPED_LOW], ids=lambda fault: fault.name)
def test_a_fault_of_a_pack_arm_shows_in_counts_and_in_drafts(check_id: str, fault: Fault) -> None:
    got = findings(check_id, run_of(check_id, fault, arms=["draft"]))
    assert {start for start, _ in places(got)} == {"draft"}
    assert {one.verdict for one in got} == {Verdict.WRONG_PATH}


@pytest.mark.parametrize("fault", [Fault.CONSUME_LAST, Fault.CONSTANT_DRAFTED, Fault.DRAFTED_IS_WIDTH], ids=lambda one: one.name)
def test_a_made_up_count_of_a_pack_arm_differs_from_the_oracles(fault: Fault) -> None:
    assert {start for start, _ in places(findings("exact-counts", run_of("exact-counts", fault, arms=["draft"])))} == {"draft"}


def drafted_otherwise(run: Run, start_id: str, *, slot: int) -> Run:
    """Return the run with another draft in one slot of a round of main-1/24 that accepts no more than one draft."""
    rounds = answer_of(run, start_id, "main-1/24").rounds
    assert rounds is not None
    at = next(index for index, one in enumerate(rounds) if one.num_accepted <= 1 and len(one.drafted_ids) > slot)
    ids = list(rounds[at].drafted_ids)
    ids[slot] = (ids[slot] + 31) % 90
    changed = (*rounds[:at], Round(tuple(ids), rounds[at].num_accepted), *rounds[at + 1 :])
    return altered(run, start_id, "main-1/24", rounds=changed)


def test_another_draft_behind_the_rejected_one_is_a_finding_on_the_host() -> None:
    got = findings("exact-drafts", drafted_otherwise(run_of("exact-drafts", tier=Tier.GATE), "draft", slot=5))
    assert places(got) == [("draft", "main-1/24"), ("twin2/draft", "main-1/24")]  # the twin still drafts as it should


@pytest.mark.parametrize(("slot", "found"), [(0, [("npu/draft", "main-1/24")]), (5, [])])
def test_on_a_device_only_the_slots_that_set_the_path_are_compared(slot: int, found: list[tuple[str, str]]) -> None:
    got = findings("exact-drafts", drafted_otherwise(run_of("exact-drafts", tier=Tier.GATE), "npu/draft", slot=slot))
    assert places(got) == found


def pack_starts(check_id: str) -> set[str]:
    return {start.id for start in plan_of(check_id).starts if start.pack is not None}


def with_margin(run: Run, margin: float, slot: int) -> Run:
    """Return the run as if one slot of every block were decided by so much."""
    assert run.expectations is not None
    draftings = []
    for drafting in run.expectations.draftings:
        thin = {
            place: Block(block.drafts, tuple(margin if at == slot else lead for at, lead in enumerate(block.margins)))
            for place, block in drafting.blocks.items()
        }
        draftings.append(msgspec.structs.replace(drafting, blocks=thin))
    return msgspec.structs.replace(run, expectations=msgspec.structs.replace(run.expectations, draftings=tuple(draftings)))


@pytest.mark.parametrize("check_id", EXACT)
def test_an_asked_reply_on_which_a_draft_is_too_near_is_blind_and_others_are_let_be(check_id: str) -> None:
    got = findings(check_id, with_margin(run_of(check_id), 1e-6, slot=6))
    assert {one.start for one in got} == pack_starts(check_id)
    assert blind(got)[0] == "main-1/24: a draft leads by no more than 1.0e-06 of its score, 1.2e-04 is needed to be certain"
    assert "main-1/1:" not in " ".join(blind(got))  # it asks for no draft
    run = run_of("drafts-made", Fault.CAPPED_LOW, arms=["draft"])
    assert places(findings(check_id, with_margin(run, 1e-6, slot=0))) == [("", "")]


def test_a_device_needs_a_larger_lead_and_that_in_slots_which_set_the_path() -> None:
    clean = run_of("exact-counts", tier=Tier.GATE)
    assert {one.start for one in findings("exact-counts", with_margin(clean, 0.1, slot=0))} == {"npu/draft", "npu/draft-2"}
    assert "npu/draft" not in {one.start for one in findings("exact-counts", with_margin(clean, 1e-6, slot=6)) if one.request}


@pytest.mark.parametrize("check_id", EXACT)
def test_a_run_that_came_without_expectations_is_blind_for_packs(check_id: str) -> None:
    got = findings(check_id, msgspec.structs.replace(run_of(check_id), expectations=None))
    assert {one.start for one in got} == pack_starts(check_id)
    assert blind(got)[0] == "main-1/24: no expectations came with the run"


# exact-drafts


def test_a_wrong_id_in_the_second_round_is_named_by_its_round() -> None:
    clean = run_of("exact-drafts")
    rounds = answer_of(clean, "lookup", "hit-1/24").rounds
    assert rounds is not None
    wrong = Round((rounds[1].drafted_ids[0] + 1, *rounds[1].drafted_ids[1:]), rounds[1].num_accepted)
    (got,) = findings("exact-drafts", altered(clean, "lookup", "hit-1/24", rounds=(rounds[0], wrong, *rounds[2:])))
    assert (got.start, got.request, got.first_difference) == ("lookup", "hit-1/24", 1)
    assert got.message == "round 1 differs from the oracle's (drafted ids, accepted)"
    assert got.want[1] == [list(rounds[1].drafted_ids), rounds[1].num_accepted]


def test_a_missing_last_round_is_a_difference_and_not_the_end_of_the_comparison() -> None:
    clean = run_of("exact-drafts")
    rounds = answer_of(clean, "lookup", "hit-1/24").rounds
    assert rounds is not None
    (got,) = findings("exact-drafts", altered(clean, "lookup", "hit-1/24", rounds=rounds[:-1]))
    assert got.first_difference == len(rounds) - 1


def test_rounds_in_another_order_are_a_difference() -> None:
    clean = run_of("exact-drafts")
    rounds = answer_of(clean, "lookup", "hit-1/24").rounds
    assert rounds is not None
    swapped = (rounds[1], rounds[0], *rounds[2:])
    (got,) = findings("exact-drafts", altered(clean, "lookup", "hit-1/24", rounds=swapped))
    assert got.first_difference == 0


def test_an_answer_without_its_list_of_rounds_is_a_finding() -> None:
    (got,) = findings("exact-drafts", altered(run_of("exact-drafts"), "lookup", "hit-1/24", rounds=None))
    assert got.message == "the answer holds no list of its rounds"


# an identity twin


def twin_run() -> Run:
    """Return the gate plan of exact-drafts answered right; its twin2/draft must draft as draft does."""
    return run_of("exact-drafts", tier=Tier.GATE)


def with_predictions_lost(run: Run, pack: str) -> Run:
    """Return the run as if no oracle had drafted with a pack: what its starts propose is held against nothing else."""
    assert run.expectations is not None
    draftings = tuple(one for one in run.expectations.draftings if one.pack != pack)
    return msgspec.structs.replace(run, expectations=msgspec.structs.replace(run.expectations, draftings=draftings))


def test_an_identity_twin_that_drafts_otherwise_than_its_original_is_found_without_an_oracle() -> None:
    run = with_predictions_lost(twin_run(), "twin2")
    rounds = answer_of(run, "draft", "main-1/24").rounds
    assert rounds is not None
    other = (Round((*rounds[0].drafted_ids[:-1], 93), rounds[0].num_accepted), *rounds[1:])
    got = findings("exact-drafts", altered(run, "twin2/draft", "main-1/24", rounds=other))
    (found,) = (one for one in got if one.verdict is not Verdict.BLIND)
    assert (found.start, found.request, found.first_difference) == ("twin2/draft", "main-1/24", 0)
    assert found.message == "round 0 differs from that of draft, whose pack says the same in other words"


def test_an_identity_twin_whose_original_is_not_asked_the_same_is_blind() -> None:
    run = twin_run()
    starts = tuple(
        msgspec.structs.replace(one, requests=tuple(r for r in one.requests if one.id != "draft" or r.id != "hit-1/24"))
        for one in run.plan.starts
    )
    got = findings("exact-drafts", msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, starts=starts)))
    assert blind(got) == ["draft is not asked hit-1/24, so no drafts are compared"]


def test_an_identity_twin_is_blind_where_neither_start_made_a_round() -> None:
    run = twin_run()
    for start_id in ("draft", "twin2/draft"):
        for request in run.plan.start("twin2/draft").requests:
            run = altered(run, start_id, request.id, rounds=())
    lost = with_predictions_lost(with_predictions_lost(run, "twin2"), "mixed")
    assert "no round was compared with another start's" in blind(findings("exact-drafts", lost))


# accounting


@pytest.mark.parametrize("fault", [Fault.CONSTANT_DRAFTED, Fault.DRAFTED_IS_WIDTH], ids=lambda fault: fault.name)
@pytest.mark.parametrize("arm", ["lookup", "draft"])
def test_drafted_counts_that_were_made_up_break_the_sum_over_the_rounds(fault: Fault, arm: str) -> None:
    got = findings("accounting", run_of("accounting", fault, arms=[arm]))
    assert (arm, "hit-1/24") in places(got)
    assert {one.message for one in got} == {"drafted beside the sum over per_round differs"}


@pytest.mark.parametrize("arm", ["plain", "lookup", "draft"])
def test_one_pass_too_many_after_the_budget_breaks_the_sum_on_each_arm(arm: str) -> None:
    got = findings("accounting", run_of("accounting", Fault.CONSUME_LAST, arms=[arm]))
    assert {(arm, "main-1/1"), (arm, "hit-1/1")} <= set(places(got))
    (first,) = (one for one in got if one.request == "main-1/1")
    assert (first.want, first.got) == ("tokens=2", "tokens=1")
    assert first.message == "tokens is not rounds + plain + accepted + last (rounds=0 plain=1 accepted=0 last=1)"


def test_a_pack_round_that_only_ran_the_token_that_spent_the_budget_breaks_the_sum() -> None:
    clean = run_of("accounting")
    run = altered(clean, "draft", "main-1/1", counts={"rounds": 1, "drafted": 1}, rounds=(Round((5,), 0),))
    got = [one.message for one in findings("accounting", run)]
    assert "tokens is not rounds + plain + accepted + last (rounds=1 plain=0 accepted=0 last=1)" in got


def test_a_pack_arm_cannot_hide_an_accepted_draft_as_a_token_that_was_not_run() -> None:
    clean = run_of("accounting")
    one = answer_of(clean, "draft", "hit-1/24")
    assert one.rounds is not None
    assert one.counts is not None
    *before, last = one.rounds
    fewer = {"accepted": one.counts.accepted - 1}
    rounds = (*before, Round(last.drafted_ids, last.num_accepted - 1))
    run = altered(clean, "draft", "hit-1/24", counts=fewer, usage_counts=fewer, rounds=rounds)
    assert places(findings("accounting", run)) == [("draft", "hit-1/24")]
    assert findings("accounting", msgspec.structs.replace(run, expectations=None)) == ()  # its own rounds would excuse it


def test_a_log_line_that_differs_from_the_response_names_the_field() -> None:
    got = findings("accounting", run_of("accounting", Fault.LINE_DIFFERS, arms=["draft"]))
    assert {one.start for one in got} == {"draft"}
    assert "drafted: not the log line's counts" in {one.message for one in got}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reply": {"completion_tokens": 23}}, "tokens beside usage.completion_tokens differs"),
        ({"reply": {"ids": (1, 2)}}, "tokens beside the ids returned differs"),
        ({"rounds": ()}, "rounds beside the length of per_round differs"),
    ],
)
def test_counts_that_disagree_with_the_reply_or_its_rounds_are_a_finding(changes: dict[str, Any], message: str) -> None:
    got = findings("accounting", altered(run_of("accounting"), "lookup", "hit-1/24", **changes))
    assert message in {one.message for one in got}
    assert set(places(got)) == {("lookup", "hit-1/24")}


def test_more_accepted_than_drafted_in_one_round_is_a_finding_of_that_round() -> None:
    clean = run_of("accounting")
    rounds = answer_of(clean, "lookup", "hit-1/24").rounds
    assert rounds is not None
    first, second, *rest = rounds
    moved = (
        msgspec.structs.replace(first, num_accepted=len(first.drafted_ids) + 1),
        msgspec.structs.replace(second, num_accepted=second.num_accepted + first.num_accepted - len(first.drafted_ids) - 1),
    )
    got = findings("accounting", altered(clean, "lookup", "hit-1/24", rounds=(*moved, *rest)))
    assert got[0].message == "round 0 accepted more than it drafted"


def test_every_line_of_the_plan_is_held_to_the_sum_whoever_asked_for_it() -> None:
    run = altered(run_of("hit-miss-decoy"), "lookup", "miss-1/24", counts={"plain": 24}, usage_counts={"plain": 24})
    got = [one for one in findings("accounting", run) if one.request]
    assert places(got) == [("lookup", "miss-1/24")]


@pytest.mark.parametrize(("plain", "holds"), [(1, True), (2, True), (3, False), (0, False)])
@pytest.mark.parametrize("leaves", [True, False], ids=["left", "failed"])
def test_a_reply_that_was_broken_off_may_have_run_its_last_token_or_not(leaves: bool, plain: int, holds: bool) -> None:
    plan = plan_of("accounting")
    broken_off = {"leave_after_chunks": 2} if leaves else {"expect": 500}
    starts = tuple(
        msgspec.structs.replace(
            start, requests=tuple(msgspec.structs.replace(r, **broken_off) if r.id == "main-1/24" else r for r in start.requests)
        )
        for start in plan.starts
    )
    clean = answer_plan(msgspec.structs.replace(plan, starts=starts), Script(all_streams()))
    counts = {"path": "spec", "rounds": 0, "drafted": 0, "accepted": 0, "tokens": 2, "plain": plain}
    status, failure = (None, "left") if leaves else (500, "")
    run = altered(
        clean, "draft", "main-1/24", status=status, failure=failure, reply=None, counts=counts, usage_counts=None, rounds=None
    )
    assert places(findings("accounting", run)) == ([] if holds else [("draft", "main-1/24")])


def test_an_answer_that_calls_itself_cancelled_is_given_no_room() -> None:
    clean = run_of("accounting")
    said = {"reason": "cancelled", "plain": 1}
    run = altered(clean, "lookup", "main-1/1", counts=said, usage_counts=said)
    assert places(findings("accounting", run)) == [("lookup", "main-1/1")]


@pytest.mark.parametrize("check_id", CHECKS)
def test_an_asked_answer_without_counts_is_a_finding(check_id: str) -> None:
    request_id = "hit-1/24"
    got = findings(check_id, altered(run_of(check_id), "lookup", request_id, counts=None))
    assert [(one.start, one.request, one.message) for one in got] == [("lookup", request_id, "no counts came with the answer")]


@pytest.mark.parametrize(
    ("rounds", "tokens", "ends_on_end_token", "want"),
    [
        ([], 0, True, 0),
        ([], 1, False, 1),
        ([], 1, True, 0),
        ([(3, 2)], 3, False, 0),  # ended by its last accepted draft
        ([(3, 2)], 4, False, 1),  # one more token, of the base's own choice
        ([(3, 2)], 4, True, 0),
        ([(3, 2), (3, 0)], 4, False, 1),  # the last round can only have run a token that ended nothing
        ([(3, 2)], 9, False, 1),  # plain steps after the fallback
    ],
)
def test_last_is_traced_through_the_rounds_of_a_pack(
    rounds: list[tuple[int, int]], tokens: int, ends_on_end_token: bool, want: int
) -> None:
    listed = [Round(tuple(range(drafted)), accepted) for drafted, accepted in rounds]
    assert traced_last(listed, tokens, ends_on_end_token=ends_on_end_token) == want


def outside_run(counts: Counts, **declared: Any) -> Run:
    """A run of a subject that names no paths, with one drafted reply of 24 tokens and these counts."""
    run = altered(
        run_of("accounting"), "lookup", "hit-1/24", rounds=None, usage_counts=None, counts=msgspec.structs.asdict(counts)
    )
    arms = {name: msgspec.structs.replace(facts, oracle="") for name, facts in run.declared.arms.items()}
    outside = msgspec.structs.replace(run.declared, reports_path=False, reports_rounds=False, arms=arms, **declared)
    return msgspec.structs.replace(run, declared=outside)


def outside_counts(rounds: int, drafted: int, accepted: int) -> Counts:
    return Counts("spec", None, rounds, drafted, accepted, None, 24, None, None, None)


def found(run: Run) -> list[str]:
    return [one.message for one in findings("accounting", run) if (one.start, one.request) == ("lookup", "hit-1/24")]


def test_rounds_that_were_multiplied_by_their_width_are_as_many_each() -> None:
    assert found(outside_run(outside_counts(3, 12, 6), drafted="width-times-rounds")) == []
    assert found(outside_run(outside_counts(3, 13, 6), drafted="width-times-rounds")) == ["drafted is not as many in each round"]
    assert found(outside_run(outside_counts(3, 13, 6), drafted="proposed")) == []


def test_a_first_token_before_all_rounds_is_one_token_more() -> None:
    inside, outside = (outside_run(outside_counts(10, 20, 14), first_token_outside=one) for one in (False, True))
    assert found(inside) == []
    assert found(outside) == ["fewer tokens than its rounds delivered (rounds=10 accepted=14)"]


def test_drafts_that_ran_over_the_budget_are_counted_where_nothing_caps_them() -> None:
    over = outside_counts(10, 40, 30)
    assert found(outside_run(over)) == ["fewer tokens than its rounds delivered (rounds=10 accepted=30)"]
    assert found(outside_run(over, caps_at_budget=False)) == []
    assert found(outside_run(outside_counts(25, 40, 30), caps_at_budget=False)) == [
        "fewer tokens than its rounds delivered (rounds=25 accepted=30)"
    ]


@pytest.mark.parametrize(
    ("drafted", "holds"), [("proposed", False), ("grammar-valid", False), ("padded", True), ("width-times-rounds", True)]
)
def test_a_count_of_drafts_that_is_not_of_proposals_is_not_held_against_the_oracles(drafted: str, holds: bool) -> None:
    run = altered(run_of("exact-counts"), "lookup", "hit-1/24", counts={"drafted": 99}, usage_counts={"drafted": 99})
    run = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, drafted=drafted))
    assert (places(findings("exact-counts", run)) == []) == holds
