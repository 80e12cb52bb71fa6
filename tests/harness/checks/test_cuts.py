"""The laws on where a reply ends: stops, end tokens, the end of the context."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checks.cuts import _place_of_end
from harness.checks.evidence import Evidence
from harness.records.finding import Verdict
from harness.records.plan import Request, Start, Tier
from harness.records.recording import Answer, Reply, Round, Run
from tests.harness.checks.ideal import altered
from tests.harness.checks.replying import (
    blind,
    changed,
    findings,
    places,
    replanned,
    result,
    run_of,
    with_counts,
    with_reply,
    without,
)

FAMILY = ("stop-cut", "end-token", "context-end")


def reply_of(run: Run, start_id: str, request_id: str) -> Reply:
    """A reply that was served."""
    (recording,) = (one for one in run.recordings if one.start.id == start_id)
    answer = recording.answer(request_id)
    assert answer is not None
    assert answer.reply is not None
    return answer.reply


def ids_of(reply: Reply) -> tuple[int, ...]:
    """Its ids, which must be there."""
    assert reply.ids is not None
    return reply.ids


def answer_of(run: Run, start_id: str, request_id: str) -> Answer:
    """An answer that came."""
    (recording,) = (one for one in run.recordings if one.start.id == start_id)
    answer = recording.answer(request_id)
    assert answer is not None
    return answer


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("check_id", FAMILY)
def test_a_right_engine_has_no_finding_on_any_tier(check_id: str, tier: Tier) -> None:
    got = result(check_id, run_of(check_id, tier))
    assert got.findings == ()
    assert {start.id for start in run_of(check_id, tier).plan.starts} == set(got.examined)


def uncut(run: Run) -> dict[tuple[int, ...], Reply]:
    """The plain arm's replies that nothing cuts, by prompt."""
    plain = run.recordings[0]
    whole = (request for request in plain.start.requests if "whole" in request.roles)
    return {request.prompt_ids: reply_of(run, plain.start.id, request.id) for request in whole}


def test_stops_that_no_longer_end_a_speculative_reply_are_found() -> None:
    run = run_of("stop-cut")
    whole = uncut(run)

    def deaf(start: Start, request: Request, one: Answer) -> Answer:
        if start.arm != "lookup" or one.reply is None or one.reply.finish_reason != "stop":
            return one
        right = whole[request.prompt_ids]
        budget = request.max_tokens
        ids = ids_of(right)[:budget]
        fields: dict[str, Any] = {"finish_reason": "length", "stop_reason": None, "completion_tokens": budget}
        return with_reply(one, ids=ids, text=right.text[:budget], **fields)

    found = findings("stop-cut", changed(run, deaf))
    assert {one.start for one in found} == {"lookup"}
    assert all(one.verdict is Verdict.MISMATCH for one in found)
    assert len(found) == sum(
        reply_of(run, "lookup", request.id).finish_reason == "stop" for request in run.plan.start("lookup").requests
    )


def stopped_at_its_budget(run: Run, start_id: str) -> str:
    """A request whose stop is completed by the last token of its budget, and that token is an accepted draft."""
    for request in run.plan.start(start_id).requests:
        reply, counts = reply_of(run, start_id, request.id), answer_of(run, start_id, request.id).counts
        assert counts is not None
        in_block = counts.accepted and counts.tokens == counts.rounds + counts.plain + counts.accepted
        if reply.finish_reason == "stop" and reply.completion_tokens == request.max_tokens and in_block:
            return request.id
    raise AssertionError(start_id)


@pytest.mark.parametrize("tier", [Tier.MUTATION, Tier.GATE])
def test_a_cap_tested_before_the_stop_is_found_inside_a_block(tier: Tier) -> None:
    run = run_of("stop-cut", tier)
    name = stopped_at_its_budget(run, "lookup")
    full = next(reply for prompt, reply in uncut(run).items() if prompt == prompt_of(run, "lookup", name))
    size = len(ids_of(reply_of(run, "lookup", name)))
    capped = {"finish_reason": "length", "stop_reason": None, "text": full.text[:size]}
    (one,) = findings("stop-cut", altered(run, "lookup", name, reply=capped))
    assert (one.start, one.request, one.verdict) == ("lookup", name, Verdict.MISMATCH)


def prompt_of(run: Run, start_id: str, request_id: str) -> tuple[int, ...]:
    """The prompt of a request."""
    return next(one.prompt_ids for one in run.plan.start(start_id).requests if one.id == request_id)


def first_stopped(run: Run, start_id: str) -> str:
    """A request that a stop ended."""
    requests = run.plan.start(start_id).requests
    return next(one.id for one in requests if reply_of(run, start_id, one.id).finish_reason == "stop")


def test_a_token_behind_the_stop_that_leaks_into_ids_alone_is_found() -> None:
    run = run_of("stop-cut")
    name = first_stopped(run, "lookup")
    ids = ids_of(reply_of(run, "lookup", name))
    (one,) = findings("stop-cut", altered(run, "lookup", name, reply={"ids": (*ids, 5)}))
    assert (one.request, one.first_difference) == (name, len(ids))


@pytest.mark.parametrize("field", ["text", "stop_reason", "completion_tokens", "finish_reason", "prompt_tokens"])
def test_each_field_of_a_stopped_reply_is_held_to_the_rule(field: str) -> None:
    run = run_of("stop-cut")
    name = first_stopped(run, "lookup")
    value = 99 if field.endswith("tokens") else "other"
    (one,) = findings("stop-cut", altered(run, "lookup", name, reply={field: value}))
    assert (one.start, one.request, one.got) == ("lookup", name, value)


def test_a_plain_arm_that_cuts_wrong_itself_is_found_there() -> None:
    run = run_of("stop-cut")
    name = first_stopped(run, "plain")
    assert ("plain", name) in places(findings("stop-cut", altered(run, "plain", name, reply={"text": "other"})))


def test_both_arms_wrong_alike_are_found_by_the_rule() -> None:
    run = run_of("stop-cut")
    name = first_stopped(run, "plain")
    for start_id in ("plain", "lookup"):
        run = altered(run, start_id, name, reply={"stop_reason": "other"})
    assert places(findings("stop-cut", run)) == [("plain", name), ("lookup", name)]


def test_stops_completed_on_plain_steps_alone_prove_nothing_about_blocks() -> None:
    def on_plain_steps(start: Start, _request: Request, one: Answer) -> Answer:
        assert one.counts is not None
        if start.arm != "lookup":
            return one
        return with_counts(one, rounds=0, drafted=0, accepted=0, plain=one.counts.tokens - 1)

    found = findings("stop-cut", changed(run_of("stop-cut"), on_plain_steps))
    assert places(found) == [("lookup", "")]
    assert blind(found) == ["no stop was completed by an accepted draft"]


@pytest.mark.parametrize("check_id", ["stop-cut", "end-token"])
def test_cut_replies_without_the_whole_one_prove_nothing(check_id: str) -> None:
    run = without(run_of(check_id), lambda request: "whole" in request.roles)
    found = findings(check_id, run)
    assert {one.verdict for one in found} == {Verdict.BLIND}
    assert {one.start for one in found} == {start.id for start in run.plan.starts}


def test_a_text_of_several_characters_a_token_proves_nothing_about_stops() -> None:
    run = run_of("stop-cut")
    request = next(one for one in run.plan.start("plain").requests if "whole" in one.roles)
    found = findings("stop-cut", altered(run, "plain", request.id, reply={"text": "twice as long" * 4}))
    assert {one.message for one in found if one.verdict is Verdict.BLIND} == {
        f"{request.id}: its text is not one character per token"
    }


def end_requests(run: Run, start_id: str) -> list[Request]:
    """Requests that an end token ends."""
    return [one for one in run.plan.start(start_id).requests if "whole" not in one.roles]


def test_an_end_token_tested_on_t1_only_is_found_where_it_is_a_draft() -> None:
    run = run_of("end-token")
    whole = uncut(run)
    deaf = []

    def t1_only(start: Start, request: Request, one: Answer) -> Answer:
        is_draft = bool(one.rounds) and one.reply is not None and isinstance(one.reply.stop_reason, int)
        if start.arm != "lookup" or not is_draft:
            return one
        deaf.append((start.id, request.id))
        right = whole[request.prompt_ids]
        return with_reply(
            one, ids=right.ids, text=right.text, finish_reason="length", stop_reason=None, completion_tokens=len(ids_of(right))
        )

    found = findings("end-token", changed(run, t1_only))
    assert len(deaf) == 4
    assert places(found) == deaf


@pytest.mark.parametrize(
    ("field", "value"), [("text", "other"), ("finish_reason", "length"), ("stop_reason", None), ("completion_tokens", 99)]
)
def test_each_field_of_an_ended_reply_is_held_to_the_rule(field: str, value: object) -> None:
    run = run_of("end-token")
    name = end_requests(run, "end/lookup")[-1].id
    (one,) = findings("end-token", altered(run, "end/lookup", name, reply={field: value}))
    assert (one.request, one.got) == (name, value)


def test_an_end_token_in_the_ids_is_found() -> None:
    run = run_of("end-token")
    name = end_requests(run, "end/lookup")[-1].id
    reply = reply_of(run, "end/lookup", name)
    assert isinstance(reply.stop_reason, int)
    (one,) = findings("end-token", altered(run, "end/lookup", name, reply={"ids": (*ids_of(reply), reply.stop_reason)}))
    assert one.first_difference == len(ids_of(reply))


def test_ignore_eos_that_ends_all_the_same_is_found() -> None:
    run = run_of("end-token")
    request = next(one for one in run.plan.start("end/lookup").requests if "whole" in one.roles)
    found = findings("end-token", altered(run, "end/lookup", request.id, reply={"finish_reason": "stop", "stop_reason": 5}))
    assert places(found) == [("end/lookup", request.id)]


def test_ignore_eos_that_says_another_token_than_plain_is_found() -> None:
    run = run_of("end-token")
    request = next(one for one in run.plan.start("end/lookup").requests if "whole" in one.roles)
    wrong = (91, *ids_of(reply_of(run, "end/lookup", request.id))[1:])
    (one,) = findings("end-token", altered(run, "end/lookup", request.id, reply={"ids": wrong}))
    assert (one.request, one.first_difference) == (request.id, 0)


def test_a_twin_whose_end_tokens_never_come_is_blind() -> None:
    run = replanned(run_of("end-token"), lambda start: msgspec.structs.replace(start, model="tiny+eos=92"))
    found = findings("end-token", run)
    assert {one.verdict for one in found} == {Verdict.BLIND}
    assert all("holds no end token of tiny+eos=92" in one.message for one in found)


@pytest.mark.parametrize("place", range(5))
def test_a_place_of_the_block_on_which_no_end_token_fell_is_blind(place: int) -> None:
    run = run_of("end-token")
    evidence = Evidence(run)

    def falls_there(request: Request) -> bool:
        case = evidence.case("end/lookup", request.id)
        assert case is not None
        reply = reply_of(run, "end/lookup", request.id)
        return reply.finish_reason == "stop" and _place_of_end(evidence, case, reply) == place

    (one,) = findings("end-token", without(run, falls_there))
    assert (one.start, one.verdict, one.want) == ("end/lookup", Verdict.BLIND, [0, 1, 2, 3, 4])
    assert one.got == [other for other in range(5) if other != place]


@pytest.mark.parametrize(
    ("rounds", "plain", "place"),
    [
        ((), 0, 0),
        ((), 5, 0),
        ((Round((1, 2, 3), 3),), 0, 0),  # all accepted: the end token came as the next t1
        ((Round((1, 7, 3), 1),), 0, 2),
        ((Round((1, 8, 3), 1),), 0, 0),  # another draft was rejected there
        ((Round((1, 7, 3), 1),), 1, None),  # the round may be an earlier one
        ((Round((7,), 0), Round((1, 2, 7), 2)), 0, 3),
    ],
)
def test_the_place_of_an_end_token_is_read_from_the_last_round(rounds: tuple[Round, ...], plain: int, place: int | None) -> None:
    run = run_of("end-token")
    request = end_requests(run, "end/lookup")[0]
    run = altered(run, "end/lookup", request.id, rounds=rounds, counts={"plain": plain}, reply={"stop_reason": 7})
    evidence = Evidence(run)
    case = evidence.case("end/lookup", request.id)
    assert case is not None
    assert _place_of_end(evidence, case, reply_of(run, "end/lookup", request.id)) == place


def test_a_block_thrown_away_whole_at_the_end_of_the_context_is_found() -> None:
    run = run_of("context-end")

    def thrown_away(start: Start, _request: Request, one: Answer) -> Answer:
        if start.arm != "lookup" or not one.rounds or one.reply is None:
            return one
        kept = len(ids_of(one.reply)) - one.rounds[-1].num_accepted
        return with_reply(one, ids=ids_of(one.reply)[:kept], text=one.reply.text[:kept], completion_tokens=kept)

    found = findings("context-end", changed(run, thrown_away))
    assert {one.start for one in found} == {"context-36/lookup"}
    assert all(one.verdict is Verdict.MISMATCH and one.message == "ids differs" for one in found)


def test_an_over_long_prompt_served_on_every_arm_alike_is_found_on_each() -> None:
    run = run_of("context-end", Tier.GATE)
    served = next(one for one in run.recordings[0].answers if one.reply is not None)

    def lenient(_start: Start, request: Request, one: Answer) -> Answer:
        return msgspec.structs.replace(served, request_id=request.id) if "over-long" in request.roles else one

    found = findings("context-end", changed(run, lenient))
    assert {one.start for one in found} == {"context-36/plain", "context-36/lookup", "context-36/draft"}
    assert {(one.want, one.got) for one in found} == {(400, 200)}


def test_a_request_behind_the_end_of_the_context_that_is_not_served_is_found() -> None:
    run = run_of("context-end", Tier.GATE)
    request = next(one for one in run.plan.start("context-36/draft").requests if "/after-" in one.id)
    run = altered(run, "context-36/draft", request.id, status=None, failure="deadline", reply=None)
    assert places(findings("context-end", run)) == [("context-36/draft", request.id)]


def test_a_context_that_no_accepted_draft_fills_is_blind() -> None:
    def on_t1(start: Start, _request: Request, one: Answer) -> Answer:
        if start.arm != "lookup" or one.counts is None:
            return one
        return with_counts(one, accepted=one.counts.accepted - 1 if one.counts.accepted else 0)

    found = findings("context-end", changed(run_of("context-end"), on_t1))
    assert places(found) == [("context-36/lookup", "")]
    assert blind(found) == ["no reply ended at the end of the context on an accepted draft"]


def test_a_stop_reason_that_a_subject_never_says_is_not_asked_of_it() -> None:
    run = run_of("stop-cut")
    for recording in run.recordings:
        for answer in recording.answers:
            run = altered(run, recording.start.id, answer.request_id, reply={"stop_reason": None})
    assert {one.message for one in findings("stop-cut", run)} >= {"stop_reason of the reply cut at the stop differs"}
    silent = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, silent=("stop_reason",)))
    assert findings("stop-cut", silent) == ()
