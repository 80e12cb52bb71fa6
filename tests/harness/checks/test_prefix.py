"""The law on the prefix cache: what is resumed, that nothing else changes, and what must have been asked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checks.evidence import Evidence
from harness.records.finding import Finding, Verdict
from harness.records.plan import Request, Start, Tier
from harness.records.recording import Answer, Round, Run
from tests.harness.checks.ideal import Fault, altered
from tests.harness.checks.replying import answered, blind, changed, findings, places, plan_of, result, run_of, without

CHECK = "prefix-cache"
CACHED = ("cached/plain", "cached/lookup", "cached/draft", "cached/draft-2")
AGAIN = "hit-1/24/once-more"  # the same prompt as the request before it
TURN = "hit-1>main-1/6"  # its whole reply and more
APART = "hit-1:10:main-2/6"  # ten tokens of it
FRESH = "hit-1/24"  # nothing of the one before
STOPPED = "repeat-1+7/17/stop=*]"
BEYOND = "repeat-1+21/3"  # what the stopped one would have gone on to say
AFTER_FAILED = "main-1>main-2/4"
AFTER_CANCELLED = "main-2>main-1/4"


@pytest.mark.parametrize("tier", Tier)
def test_a_right_engine_has_no_finding_on_any_tier(tier: Tier) -> None:
    got = result(CHECK, run_of(CHECK, tier))
    assert got.findings == ()
    assert set(got.examined) == {start.id for start in run_of(CHECK, tier).plan.starts} - {"plain"}


def resumed(run: Run, start_id: str, request_id: str) -> int | None:
    evidence = Evidence(run)
    case = evidence.case(start_id, request_id)
    assert case is not None
    return evidence.resumed(case)


def test_what_must_be_resumed_is_told_by_prompts_replies_and_paths_alone() -> None:
    run = run_of(CHECK, Tier.GATE)
    first = {name: [resumed(run, name, one) for one in (FRESH, AGAIN, APART)] for name in CACHED}
    assert list(first.values()) == [[0, 15, 10]] * 4
    assert resumed(run, "cached/plain", TURN) == 16 + 23  # the last token of the reply was not run
    assert resumed(run, "cached/plain", AFTER_FAILED) == 16 + 14
    assert resumed(run, "cached/plain", AFTER_CANCELLED) == 16 + 2
    assert resumed(run, "cached/lookup", BEYOND) == 23 + 7  # the stop was completed by a draft, which was run
    assert resumed(run, "cached/plain", BEYOND) == 23 + 6


def test_what_is_resumed_does_not_hang_on_what_the_subject_says_it_resumed() -> None:
    run = run_of(CHECK, Tier.GATE)
    lying = altered(run, "cached/plain", TURN, counts={"cached": 3}, reply={"cached_tokens": 3})
    assert [resumed(lying, "cached/plain", one) for one in (TURN, APART)] == [39, 10]


def lied(run: Run, start_id: str, request_id: str, cached: int) -> tuple[Finding, ...]:
    return findings(CHECK, altered(run, start_id, request_id, counts={"cached": cached}, reply={"cached_tokens": cached}))


@pytest.mark.parametrize("start_id", CACHED)
@pytest.mark.parametrize(("request_id", "less_or_more"), [(AGAIN, -1), (APART, 1), (APART, -1), (FRESH, 1)])
def test_one_position_too_many_or_too_few_is_found_in_both_directions(start_id: str, request_id: str, less_or_more: int) -> None:
    run = run_of(CHECK)
    want = resumed(run, start_id, request_id)
    assert want is not None
    (one,) = lied(run, start_id, request_id, want + less_or_more)
    assert (one.start, one.request, one.verdict) == (start_id, request_id, Verdict.MISMATCH)
    assert (one.message, one.want, one.got) == ("cached_tokens of the usage differs", want, want + less_or_more)


def test_rows_of_undelivered_drafts_that_stay_behind_a_stop_are_found() -> None:
    run = run_of(CHECK)
    (one,) = lied(run, "cached/lookup", BEYOND, 23 + 10)
    assert (one.request, one.want, one.got) == (BEYOND, 30, 33)


def test_a_cache_that_a_failed_request_empties_is_found() -> None:
    (one,) = lied(run_of(CHECK), "cached/plain", AFTER_FAILED, 0)
    assert (one.want, one.got) == (30, 0)


def test_a_cache_that_a_client_who_left_empties_is_found() -> None:
    (one,) = lied(run_of(CHECK, Tier.GATE), "cached/draft", AFTER_CANCELLED, 0)
    assert one.request == AFTER_CANCELLED


def test_a_line_that_says_another_number_than_the_usage_is_found() -> None:
    (one,) = findings(CHECK, altered(run_of(CHECK), "cached/plain", AGAIN, counts={"cached": 0}))
    assert (one.message, one.want, one.got) == ("cached of the path that the rules give differs", {"cached": 15}, {"cached": 0})


def test_taps_that_are_kept_make_a_resumed_request_draft_and_are_found() -> None:
    run = answered(plan_of(CHECK), Fault.TAPS_KEPT)
    found = findings(CHECK, run)
    assert {one.start for one in found} == {"cached/draft", "cached/draft-2"}
    assert {AGAIN, TURN, APART} <= {one.request for one in found}
    drafts = [one for one in found if one.request == AGAIN]
    assert [one.message for one in drafts] == [
        "rounds, drafted, accepted, plain, reason of the path that the rules give differ"
    ] * 2


def test_a_stream_that_lacks_the_part_resumed_changes_only_drafts_and_is_found_with_its_round() -> None:
    run = run_of(CHECK)
    (lookup,) = (one for one in run.recordings if one.start.id == "cached/lookup")
    answer = lookup.answer(AGAIN)
    assert answer is not None and answer.rounds is not None
    other = (answer.rounds[0], Round((91, *answer.rounds[1].drafted_ids[1:]), answer.rounds[1].num_accepted), *answer.rounds[2:])
    (one,) = findings(CHECK, altered(run, "cached/lookup", AGAIN, rounds=other))
    assert (one.message, one.first_difference) == ("rounds that the rules give differs", 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": (1, 2, 3)}, "ids of the uncached run differs"),
        ({"text": "other"}, "text of the uncached run differs"),
        ({"finish_reason": "stop"}, "finish_reason of the uncached run differs"),
        ({"logprobs": {}}, "logprobs of the uncached run differs"),
    ],
)
@pytest.mark.parametrize("start_id", CACHED)
def test_a_reply_into_which_the_former_request_leaks_is_found(start_id: str, changes: dict[str, Any], message: str) -> None:
    (one,) = findings(CHECK, altered(run_of(CHECK), start_id, APART, reply=changes))
    assert (one.start, one.request, one.message) == (start_id, APART, message)


def test_a_request_that_is_not_answered_is_found_and_blinds_no_other() -> None:
    run = altered(run_of(CHECK), "cached/plain", AGAIN, status=None, failure="deadline", reply=None, counts=None)
    found = findings(CHECK, run)
    assert places(found) == [("cached/plain", AGAIN)]
    assert blind(found) == []


def test_a_plain_reply_that_was_not_served_is_found_at_the_plain_arm() -> None:
    found = findings(CHECK, altered(run_of(CHECK), "plain", APART, status=500, reply=None))
    assert ("plain", APART) in places(found)


@pytest.mark.parametrize(
    ("gone", "feature"),
    [
        ({AGAIN, BEYOND}, "all but the last token of its prompt"),
        ({TURN, APART, BEYOND, AFTER_FAILED, "hit-1/24/after-one"}, "a part of its prompt"),
    ],
)
def test_a_sequence_that_never_resumes_so_proves_nothing(gone: set[str], feature: str) -> None:
    found = findings(CHECK, without(run_of(CHECK), lambda request: request.id in gone))
    assert {one.want for one in found if one.verdict is Verdict.BLIND} >= {feature}


def test_a_request_that_did_not_fail_proves_nothing_of_failures() -> None:
    def served(_start: Start, request: Request, one: Answer) -> Answer:
        return msgspec.structs.replace(one, status=200) if "failed" in request.roles else one

    assert "main-1/400/failed: the disturbance 'failed' did not happen" in blind(findings(CHECK, changed(run_of(CHECK), served)))


def test_without_the_plain_arms_answer_nothing_is_compared() -> None:
    run = run_of(CHECK)
    starts = tuple(
        msgspec.structs.replace(start, requests=tuple(one for one in start.requests if one.id != APART or start.id != "plain"))
        for start in run.plan.starts
    )
    cut = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, starts=starts))
    assert [f"{APART}: the same was not asked of plain"] * 4 == blind(findings(CHECK, cut))


def test_what_a_request_that_broke_off_leaves_is_unknown_without_its_counts_and_blinds_the_next() -> None:
    run = altered(run_of(CHECK), "cached/plain", "main-1/400/failed", counts=None)
    assert blind(findings(CHECK, run)) == [f"{AFTER_FAILED}: nobody knows what the request before it left"]


def test_a_subject_that_tells_no_counts_need_not_tell_what_a_broken_off_request_left_nor_its_path() -> None:
    run = changed(
        run_of(CHECK), lambda _start, _request, one: msgspec.structs.replace(one, counts=None, usage_counts=None, rounds=None)
    )
    assert {one.message for one in findings(CHECK, run)} >= {"counts that the rules give differs"}
    silent = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, reports_counts=False))
    assert findings(CHECK, silent) == ()
    lost = altered(silent, "cached/plain", AGAIN, reply={"cached_tokens": 3})
    assert places(findings(CHECK, lost)) == [("cached/plain", AGAIN)]
