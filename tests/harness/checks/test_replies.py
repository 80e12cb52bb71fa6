"""The laws on whole replies: clean runs have no finding, planted faults have one where they are, what proves nothing is BLIND."""

from __future__ import annotations

import msgspec
import pytest

from harness.records.finding import Verdict
from harness.records.plan import Request, Start, Tier
from harness.records.recording import Answer, Round, Run
from tests.harness.checks.ideal import Fault, altered
from tests.harness.checks.replying import (
    answered,
    blind,
    changed,
    findings,
    places,
    plan_of,
    replanned,
    result,
    run_of,
    with_counts,
    with_reply,
    without,
)

FAMILY = ("same-reply", "same-sampled-reply", "budget-prefix", "drafter-independence")
HIT = "hit-1/24"
SEEDED = "main-1/24/seed=7/temperature=0.8"


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("check_id", FAMILY)
def test_a_right_engine_has_no_finding_on_any_tier(check_id: str, tier: Tier) -> None:
    got = result(check_id, run_of(check_id, tier))
    assert got.findings == ()
    compared = {start.id for start in run_of(check_id, tier).plan.starts if start.reference}
    assert compared <= set(got.examined)


@pytest.mark.parametrize("check_id", FAMILY)
def test_an_arm_that_answers_nothing_is_a_finding(check_id: str) -> None:
    silent = changed(
        run_of(check_id),
        lambda start, request, one: Answer(request.id, None, "deadline") if start.arm == "lookup" else one,
    )
    found = findings(check_id, silent)
    assert {one.start for one in found if one.request} == {start.id for start in silent.plan.starts if start.arm == "lookup"}
    assert all(one.verdict is Verdict.MISMATCH for one in found if one.request)


def test_a_draft_accepted_unseen_fails_same_reply_on_a_decoy() -> None:
    found = findings("same-reply", answered(plan_of("same-reply"), Fault.FIRST_UNSEEN))
    assert ("lookup", "decoy-1/24") in places(found)
    assert all(one.verdict is Verdict.MISMATCH and one.start != "plain" for one in found)


def test_a_wrong_token_is_found_with_its_index_and_once() -> None:
    run = run_of("same-reply")
    right = run.recordings[1].answer(HIT)
    assert right is not None
    assert right.reply is not None
    assert right.reply.ids is not None
    wrong = (*right.reply.ids[:3], 91, *right.reply.ids[4:])
    (one,) = findings("same-reply", altered(run, "lookup", HIT, reply={"ids": wrong, "text": "other"}))
    assert (one.start, one.request, one.message, one.first_difference) == ("lookup", HIT, "ids differs", 3)
    assert (one.want, one.got) == (right.reply.ids, wrong)


def test_a_reply_that_is_a_prefix_of_plains_is_found_at_its_length() -> None:
    run = run_of("same-reply")
    ids = run.recordings[0].answer(HIT).reply.ids  # type: ignore[union-attr]
    (one,) = findings("same-reply", altered(run, "draft", HIT, reply={"ids": ids[:20]}))  # type: ignore[index]
    assert (one.start, one.first_difference) == ("draft", 20)


@pytest.mark.parametrize(
    ("field", "value"),
    [("text", "x"), ("finish_reason", "stop"), ("stop_reason", "x"), ("prompt_tokens", 17), ("completion_tokens", 23)],
)
def test_each_field_of_a_reply_alone_is_compared(field: str, value: object) -> None:
    (one,) = findings("same-reply", altered(run_of("same-reply"), "lookup", HIT, reply={field: value}))
    assert (one.message, one.got) == (f"{field} differs", value)


def test_response_id_cached_tokens_and_counts_are_not_the_reply() -> None:
    run = altered(run_of("same-reply"), "lookup", HIT, reply={"response_id": "x", "cached_tokens": 3}, counts={"rounds": 99})
    assert findings("same-reply", run) == ()


def test_a_plain_reply_that_was_not_served_is_one_finding_at_the_plain_arm() -> None:
    run = altered(run_of("same-reply"), "plain", HIT, status=500, reply=None)
    assert places(findings("same-reply", run)) == [("plain", HIT)]


def test_ids_missing_on_all_arms_are_a_finding() -> None:
    run = changed(run_of("same-reply"), lambda _start, _request, one: with_reply(one, ids=None))
    found = findings("same-reply", run)
    assert {one.message for one in found} == {"no token ids came with the reply"}


def test_a_subject_without_ids_is_compared_by_its_text() -> None:
    run = changed(run_of("same-reply"), lambda _start, _request, one: with_reply(one, ids=None))
    run = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, returns_ids=False))
    assert findings("same-reply", run) == ()
    (one,) = findings("same-reply", altered(run, "lookup", HIT, reply={"text": "other"}))
    assert one.message == "text differs"


def test_a_reference_that_is_not_asked_the_same_is_blind() -> None:
    def silent(start: Start) -> Start:
        return msgspec.structs.replace(start, requests=start.requests[1:]) if start.id == "plain" else start

    found = findings("same-reply", replanned(run_of("same-reply"), silent))
    assert [one.start for one in found if one.verdict is Verdict.BLIND] == ["lookup", "draft"]


def test_a_plan_that_asks_nothing_of_a_check_is_blind() -> None:
    assert blind(findings("same-reply", run_of("budget-prefix"))) == ["examined nothing: the plan asks nothing for this check"]


def test_a_seed_that_is_ignored_after_the_first_request_is_found_twice_over() -> None:
    def fresh_entropy(start: Start, request: Request, one: Answer) -> Answer:
        if request.is_greedy or request.id == SEEDED:
            return one
        return with_reply(one, ids=tuple(range(24)) if start.id == "plain" else tuple(range(1, 25)))

    found = findings("same-sampled-reply", changed(run_of("same-sampled-reply"), fresh_entropy))
    again = f"{SEEDED}/again"
    assert ("lookup", again) in places(found)
    assert [one.message for one in found if (one.start, one.request) == ("plain", again)] == [
        "ids of the same seed asked before differs"
    ]


def test_one_seed_for_all_is_found() -> None:
    def constant(_start: Start, request: Request, one: Answer) -> Answer:
        return one if request.is_greedy else with_reply(one, ids=(5,) * 24)

    found = findings("same-sampled-reply", changed(run_of("same-sampled-reply"), constant))
    assert {one.message for one in found} == {"another seed gave the same reply"}
    assert {one.start for one in found} == {"plain", "lookup"}


def test_a_model_so_sharp_that_sampling_is_greedy_is_blind() -> None:
    run = run_of("same-sampled-reply")
    greedy = {recording.start.id: recording.answer("main-1/24") for recording in run.recordings}

    def sharp(start: Start, request: Request, one: Answer) -> Answer:
        if "seed=7" not in request.id:
            return one
        return msgspec.structs.replace(one, reply=greedy[start.id].reply)  # type: ignore[union-attr]

    found = findings("same-sampled-reply", changed(run, sharp))
    assert {(one.start, one.verdict) for one in found} == {("plain", Verdict.BLIND), ("lookup", Verdict.BLIND)}


@pytest.mark.parametrize(
    ("gone", "feature"),
    [
        (f"{SEEDED}/again", "the same seed twice"),
        ("main-1/24/seed=8/temperature=0.8", "another seed"),
        ("main-1/24", "greedy beside sampled"),
    ],
)
def test_a_seed_that_nothing_stands_beside_is_blind(gone: str, feature: str) -> None:
    found = findings("same-sampled-reply", without(run_of("same-sampled-reply"), lambda request: request.id == gone))
    assert {(one.start, one.verdict, one.want) for one in found} == {
        ("plain", Verdict.BLIND, feature),
        ("lookup", Verdict.BLIND, feature),
    }


def overshot(start: Start, request: Request, one: Answer) -> Answer:
    """One token past the budget, wherever it ends inside a block."""
    counts = one.counts
    assert counts is not None
    assert one.reply is not None
    assert one.reply.ids is not None
    if start.arm == "plain" or not counts.accepted or counts.tokens != counts.rounds + counts.plain + counts.accepted:
        return one
    ids = (*one.reply.ids, 5)
    return with_reply(one, ids=ids, text=one.reply.text + "&", completion_tokens=len(ids))


def test_a_budget_overshot_inside_a_block_is_found_where_it_ends_there() -> None:
    run = run_of("budget-prefix")
    found = findings("budget-prefix", changed(run, overshot))
    assert ("lookup", "repeat-1/9") in places(found)
    (one,) = [one for one in found if (one.start, one.request) == ("lookup", "repeat-1/9")]
    assert (one.first_difference, len(one.want), len(one.got)) == (9, 9, 10)
    assert all(one.start != "plain" for one in found)


@pytest.mark.parametrize("budget", [2, 24])
def test_a_reply_of_one_token_less_is_found(budget: int) -> None:
    run = run_of("budget-prefix")
    name = f"repeat-1/{budget}"
    ids = run.recordings[0].answer(name).reply.ids  # type: ignore[union-attr]
    shorter = {"ids": ids[:-1], "completion_tokens": budget - 1, "text": "x" * (budget - 1)}  # type: ignore[index]
    assert ("draft", name) in places(findings("budget-prefix", altered(run, "draft", name, reply=shorter)))


@pytest.mark.parametrize(
    ("field", "value"), [("finish_reason", "stop"), ("stop_reason", 5), ("completion_tokens", 4), ("text", "other")]
)
def test_each_field_of_a_cut_reply_is_held_to_its_budget(field: str, value: object) -> None:
    run = altered(run_of("budget-prefix"), "lookup", "repeat-1/5", reply={field: value})
    (one,) = findings("budget-prefix", run)
    assert (one.start, one.request, one.got) == ("lookup", "repeat-1/5", value)


def natural_end() -> tuple[Run, str, int]:
    """A run with a reply that an end token ends, its requests' name, and how many tokens it has."""
    run = run_of("budget-prefix", Tier.GATE)
    start = run.plan.start("end/lookup")
    longest = max((one for one in start.requests), key=lambda one: one.max_tokens)
    answer = next(one for one in run.recordings if one.start.id == start.id).answer(longest.id)
    assert answer is not None
    assert answer.reply is not None
    assert answer.reply.finish_reason == "stop"
    return run, longest.id.rpartition("/")[0], len(answer.reply.ids or ())


def test_a_budget_of_exactly_the_natural_end_is_a_length_not_a_stop() -> None:
    run, name, size = natural_end()
    request_id = f"{name}/{size}"
    (one,) = findings("budget-prefix", altered(run, "end/lookup", request_id, reply={"finish_reason": "stop"}))
    assert (one.request, one.want, one.got) == (request_id, "length", "stop")


def test_a_budget_beyond_the_natural_end_that_goes_on_is_found() -> None:
    run, name, size = natural_end()
    request_id = f"{name}/{size + 1}"
    ids = tuple(range(size + 1))
    changes = {"finish_reason": "length", "stop_reason": None, "ids": ids, "completion_tokens": size + 1}
    found = findings("budget-prefix", altered(run, "end/lookup", request_id, reply=changes))
    assert places(found) == [("end/lookup", request_id)]


def test_an_arm_that_never_accepted_a_draft_proves_nothing_about_budgets() -> None:
    def on_plain_steps(start: Start, _request: Request, one: Answer) -> Answer:
        tokens = one.counts.tokens  # type: ignore[union-attr]
        if start.arm != "lookup":
            return one
        return with_counts(one, rounds=0, drafted=0, accepted=0, plain=tokens - 1)

    found = findings("budget-prefix", changed(run_of("budget-prefix"), on_plain_steps))
    assert [(one.start, one.message) for one in found] == [("lookup", "no budget was spent inside an accepted block")]
    assert found[0].verdict is Verdict.BLIND


def test_one_budget_alone_proves_nothing() -> None:
    run = without(run_of("budget-prefix"), lambda request: request.max_tokens != 24)
    found = findings("budget-prefix", run)
    assert "repeat-1/24: asked at one budget only" in blind(found)
    assert {one.start for one in found} == {"plain", "lookup", "draft"}


def test_a_row_off_by_one_in_the_widest_pass_is_found_on_its_start() -> None:
    run = run_of("drafter-independence")

    def off_by_one(start: Start, _request: Request, one: Answer) -> Answer:
        if not any(len(each.drafted_ids) == 15 for each in one.rounds or ()):
            return one
        assert start.id == "k-15/lookup"
        return with_reply(one, ids=(91, *one.reply.ids[1:]))  # type: ignore[union-attr, index]

    found = findings("drafter-independence", changed(run, off_by_one))
    assert {one.start for one in found} == {"k-15/lookup"}
    assert {one.first_difference for one in found} == {0}
    assert len(found) == 2


def test_a_start_that_never_drafts_all_its_k_is_blind() -> None:
    def narrower(start: Start, _request: Request, one: Answer) -> Answer:
        if start.id != "k-15/lookup":
            return one
        rounds = tuple(Round(each.drafted_ids[:14], min(each.num_accepted, 14)) for each in one.rounds or ())
        return msgspec.structs.replace(one, rounds=rounds)

    found = findings("drafter-independence", changed(run_of("drafter-independence"), narrower))
    assert [(one.start, one.verdict, one.want, one.got) for one in found] == [("k-15/lookup", Verdict.BLIND, 15, 14)]


def test_a_subject_without_rounds_is_held_to_the_predicted_width() -> None:
    run = changed(run_of("drafter-independence"), lambda _start, _request, one: msgspec.structs.replace(one, rounds=None))
    assert findings("drafter-independence", run) != ()
    declared = msgspec.structs.replace(run.declared, reports_rounds=False)
    assert findings("drafter-independence", msgspec.structs.replace(run, declared=declared)) == ()


def test_fields_that_a_subject_does_not_say_are_held_against_no_rule() -> None:
    run = changed(run_of("budget-prefix"), lambda _start, _request, one: with_reply(one, finish_reason=None))
    assert findings("budget-prefix", run) != ()
    silent = msgspec.structs.replace(
        run, declared=msgspec.structs.replace(run.declared, silent=("finish_reason",), reports_path=False)
    )
    assert [one.message for one in findings("budget-prefix", silent) if one.request] == []
