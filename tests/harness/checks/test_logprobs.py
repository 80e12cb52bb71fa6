"""The law on logprobs: rescored, beside the rows, streamed, and by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from harness.checks.scores import BrokenScoresError, log_softmax, read_logprobs, rows_of
from harness.checks.statistical.bands import EXACT_BAND
from harness.records.expectation import Choice, ModelFacts, Saying
from harness.records.finding import Finding, Verdict
from harness.records.plan import Tier
from harness.records.recording import Answer, Dump, Run
from tests.harness.checks.ideal import altered
from tests.harness.checks.replying import blind, changed, findings, result, run_of, without
from tests.harness.checks.serving import dump_of

CHECK = "logprobs-target"
WHOLE = "main-1/6/logprobs=5"
STREAMED = "main-1/6/logprobs=5/stream=True/stream_options=include_usage"
SECOND = "main-1+1/1/logprobs=5"  # scores the second token


@pytest.mark.parametrize("tier", Tier)
def test_a_right_engine_has_no_finding_on_any_tier(tier: Tier) -> None:
    got = result(CHECK, run_of(CHECK, tier))
    assert got.findings == ()
    assert {start.id for start in run_of(CHECK, tier).plan.starts} == set(got.examined)


def scores_of(run: Run, start_id: str, request_id: str) -> dict[str, Any]:
    (recording,) = (one for one in run.recordings if one.start.id == start_id)
    answer = recording.answer(request_id)
    assert answer is not None and answer.reply is not None
    scores: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer.reply.logprobs))
    return scores


def rescored(start_id: str, request_id: str, change: Callable[[dict[str, Any]], object]) -> tuple[Finding, ...]:
    """Return what is found where one answer's logprobs are changed, of that start and request alone."""
    run = run_of(CHECK)
    scores = scores_of(run, start_id, request_id)
    change(scores)
    found = findings(CHECK, altered(run, start_id, request_id, reply={"logprobs": scores}))
    return tuple(one for one in found if (one.start, one.request) == (start_id, request_id))


def moved(scores: dict[str, Any]) -> None:
    """The scores of each position are those of the one before it, and the texts stay."""
    scores["token_logprobs"] = [scores["token_logprobs"][0], *scores["token_logprobs"][:-1]]
    scores["top_logprobs"] = [scores["top_logprobs"][0], *scores["top_logprobs"][:-1]]


def test_logprobs_of_the_row_before_are_found_as_the_token_is_not_among_the_best() -> None:
    (one,) = rescored("plain", WHOLE, moved)
    assert (one.message, one.first_difference) == ("token 1: it is not among its own alternatives", 1)


def nudged(scores: dict[str, Any]) -> None:
    """The last bits of one logprob are other ones."""
    token = scores["tokens"][3]
    scores["token_logprobs"][3] += 1e-12
    scores["top_logprobs"][3] = {token: scores["token_logprobs"][3]} | {
        text: value for text, value in scores["top_logprobs"][3].items() if text != token
    }


def test_a_logprob_that_is_another_in_its_last_bits_is_found_by_the_request_that_scores_its_position_alone() -> None:
    (one,) = rescored("plain", WHOLE, nudged)
    assert (one.message, one.first_difference) == ("token 3 is scored otherwise than by main-1+3/1/logprobs=5 on plain", 3)


def test_a_lookup_arms_logprobs_are_held_against_the_plain_arms() -> None:
    found = rescored("lookup", WHOLE, nudged)
    assert [one.message for one in found] == [
        "logprobs differs",
        "token 3 is scored otherwise than by main-1+3/1/logprobs=5 on plain",
    ]


def test_a_stream_whose_logprobs_are_others_is_found() -> None:
    found = rescored("plain", STREAMED, nudged)
    assert [one.message for one in found] == [
        "token 3 is scored otherwise than by main-1+3/1/logprobs=5 on plain",
        "logprobs of the stream differs",
    ]


def zeroed(scores: dict[str, Any]) -> None:
    scores["token_logprobs"] = [0.0] * 6
    scores["top_logprobs"] = [{token: 0.0} for token in scores["tokens"]]


def doubled(scores: dict[str, Any]) -> None:
    for name, values in scores.items():
        scores[name] = [*values, values[-1]]


def misspelt(scores: dict[str, Any]) -> None:
    scores["tokens"][2] = "~~"


def misplaced(scores: dict[str, Any]) -> None:
    scores["text_offset"] = [16 + offset for offset in scores["text_offset"]]


def reversed_(scores: dict[str, Any]) -> None:
    scores["top_logprobs"][0] = dict(reversed(scores["top_logprobs"][0].items()))


def cut(scores: dict[str, Any]) -> None:
    scores["top_logprobs"][0] = dict(list(scores["top_logprobs"][0].items())[:4])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (zeroed, "every logprob is zero"),
        (doubled, "number of tokens that have logprobs differs"),
        (misspelt, "texts of the tokens that have logprobs differs"),
        (misplaced, "text_offset of the tokens differs"),
        (reversed_, "token 0: its alternatives do not come best first"),
        (cut, "token 0: its alternatives are not as many as asked for"),
        (lambda scores: scores.pop("tokens"), "logprobs: tokens=None is no list"),
        (lambda scores: scores["tokens"].pop(), "logprobs: lists of 5, 6, 6, 6 entries are beside each other"),
        (
            lambda scores: scores["token_logprobs"].__setitem__(0, 0.5),
            "logprobs: a logprob of entry 0 is 0.5; want a number not above 0",
        ),
    ],
)
def test_logprobs_that_do_not_hold_by_themselves_are_found(change: Callable[[dict[str, Any]], object], message: str) -> None:
    (one,) = rescored("plain", WHOLE, change)
    assert (one.message, one.verdict) == (message, Verdict.MISMATCH)


def test_logprobs_that_are_missing_are_found() -> None:
    (one,) = findings(CHECK, altered(run_of(CHECK), "plain", STREAMED, reply={"logprobs": None}))[:1]
    assert (one.request, one.message) == (STREAMED, "logprobs: None is no object")


def dumped(run: Run, **changes: Any) -> tuple[Finding, ...]:
    """Return what is found where fields of the file of logits are changed."""

    def change(_start: object, _request: object, one: Answer) -> Answer:
        return one if one.dump is None else msgspec.structs.replace(one, dump=msgspec.structs.replace(one.dump, **changes))

    return findings(CHECK, changed(run, change))


def test_rows_of_another_model_are_found_by_their_log_softmax() -> None:
    run = run_of(CHECK)
    (recording,) = (one for one in run.recordings if one.start.id == "dump/plain")
    answer = recording.answer(WHOLE)
    assert answer is not None and answer.dump is not None
    rows = [list(row) for row in rows_of(answer.dump)]
    rows[2][7] += 1e-2
    (one,) = dumped(run, content=dump_of(rows).content)
    assert (one.start, one.request, one.first_difference) == ("dump/plain", WHOLE, 2)
    assert one.message == "logprobs of token 2 are not those of its row in the file of logits"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (5, 288)}, "number of rows in the file of logits differs"),
        ({"dtype": "<f8"}, "dump: <f8 of shape (6, 288); want <f4 [tokens, vocabulary]"),
        ({"shape": (6 * 288,)}, "dump: <f4 of shape (1728,); want <f4 [tokens, vocabulary]"),
    ],
)
def test_a_file_of_logits_of_another_form_is_found(changes: dict[str, Any], message: str) -> None:
    (one,) = dumped(run_of(CHECK), **changes)
    assert (one.start, one.message) == ("dump/plain", message)


def test_a_file_of_logits_that_did_not_come_is_found() -> None:
    (one,) = findings(CHECK, altered(run_of(CHECK), "dump/plain", WHOLE, dump=None))
    assert (one.start, one.message) == ("dump/plain", "no file of logits came with the answer")


def test_a_reply_that_was_not_rescored_at_every_position_proves_nothing() -> None:
    found = findings(CHECK, without(run_of(CHECK), lambda request: request.id == SECOND))
    assert blind(found) == ["no reply was every position rescored"] * 2
    assert {one.start for one in found} == {"plain", "lookup"}


def test_a_stream_without_its_unstreamed_twin_proves_nothing() -> None:
    found = findings(CHECK, without(run_of(CHECK), lambda request: request.id == WHOLE))
    assert f"{STREAMED}: the same was not answered unstreamed" in blind(found)


def test_a_reply_is_rescored_only_by_requests_that_ask_for_as_many_alternatives() -> None:
    run = run_of(CHECK, Tier.GATE)
    starts = {one.start for one in findings(CHECK, without(run, lambda request: "rescores" in request.roles))}
    assert starts == {"plain", "lookup", "draft"}


def test_a_chats_list_is_read_as_a_completions_columns_are() -> None:
    value = {"content": [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -0.25}]}]}
    (one,) = read_logprobs(value)
    assert (one.token, one.logprob, one.alternatives, one.offset) == ("a", -0.5, (("b", -0.25),), None)


@pytest.mark.parametrize("value", [5, {"content": 5}, {"content": [5]}, {"content": [{"token": 5}]}, {"tokens": []}])
def test_scores_that_are_none_are_refused(value: Any) -> None:
    with pytest.raises(BrokenScoresError, match="logprobs: "):
        read_logprobs(value)


def test_log_softmax_of_equal_scores_is_the_log_of_their_number() -> None:
    assert log_softmax([3.0] * 4) == pytest.approx([-1.3862943611198906] * 4, abs=1e-15)


def test_rows_come_in_the_files_order() -> None:
    dump = Dump("", "<f4", (2, 2), b"\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@")
    assert rows_of(dump) == [(1.0, 2.0), (3.0, 4.0)]


def computed(change: float = 0.0, place: int = 3) -> Run:
    """Return a run whose expectations hold the logprobs of a forward: plain's own, one of them changed."""
    run = run_of(CHECK)
    scores = scores_of(run, "plain", WHOLE)
    logprobs = [value + change * (index == place) for index, value in enumerate(scores["token_logprobs"])]
    (plain,) = (one for one in run.plan.starts if one.id == "plain")
    (request,) = (one for one in plain.requests if one.id == WHOLE)
    (recording,) = (one for one in run.recordings if one.start.id == "plain")
    answer = recording.answer(WHOLE)
    assert answer is not None and answer.reply is not None and answer.reply.ids is not None
    choices = tuple(Choice(token, 1.0, False, True, logprob) for token, logprob in zip(answer.reply.ids, logprobs, strict=True))
    assert run.expectations is not None
    weights = run.expectations.models.get(plain.model, ModelFacts("w", (), 64))
    expectations = msgspec.structs.replace(
        run.expectations,
        models={**run.expectations.models, plain.model: weights},
        sayings=(Saying(weights.weights, request.prompt_ids, choices),),
    )
    return msgspec.structs.replace(run, expectations=expectations)


def test_logprobs_that_are_those_of_a_float64_forward_have_no_finding() -> None:
    assert findings(CHECK, computed()) == ()
    assert findings(CHECK, computed(EXACT_BAND / 2)) == ()


def test_a_logprob_that_every_arm_gets_wrong_alike_is_found_by_the_float64_forward() -> None:
    found = findings(CHECK, computed(3 * EXACT_BAND))
    message = "the logprob of token 3 is not that of a float64 forward"
    assert {(one.start, one.message, one.first_difference, one.verdict) for one in found} == {
        ("plain", message, 3, Verdict.MISMATCH)
    }
    assert {one.request for one in found} == {WHOLE, STREAMED}


def test_a_forward_that_scored_nothing_of_what_plain_was_asked_makes_it_blind() -> None:
    run = computed()
    assert run.expectations is not None
    elsewhere = tuple(msgspec.structs.replace(one, prompt_ids=(1, 2)) for one in run.expectations.sayings)
    expectations = msgspec.structs.replace(run.expectations, sayings=elsewhere)
    found = findings(CHECK, msgspec.structs.replace(run, expectations=expectations))
    assert [(one.start, one.message, one.verdict) for one in found] == [
        ("plain", "no reply was held against a float64 forward", Verdict.BLIND)
    ]


def test_a_reply_that_is_not_what_the_forward_says_is_left_to_the_law_on_replies() -> None:
    run = computed(5.0)
    assert run.expectations is not None
    (saying,) = run.expectations.sayings
    other = (*saying.choices[:3], msgspec.structs.replace(saying.choices[3], token=93), *saying.choices[4:])
    sayings = (msgspec.structs.replace(saying, choices=other),)
    expectations = msgspec.structs.replace(run.expectations, sayings=sayings)
    assert findings(CHECK, msgspec.structs.replace(run, expectations=expectations)) == ()
