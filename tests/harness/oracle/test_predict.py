from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.oracle.predict import Prediction, predict, said_by
from harness.plans.requests import completion
from harness.plans.starts import DRAFT, LOOKUP, PLAIN, lookup
from harness.records.fixture import Stream
from harness.records.plan import Request
from harness.records.recording import Answer, ArmFacts, Counts, Reply, Round
from tests.harness.checks.ideal import DECLARED, Script, answer

STREAM = Stream("hit-1", "hit", (0, 1, 2, 3, 4, 0), (1, 2, 3, 9, 8, 7))


def plain_answer(ids: tuple[int, ...], finish: str, stop_reason: str | int | None = None) -> Answer:
    return Answer("r", 200, reply=Reply("cmpl-1", "", ids, finish, stop_reason, 6, len(ids)))


def ask(max_tokens: int, **fields: Any) -> Request:
    return completion(STREAM, max_tokens, "exact-counts", **fields)


def test_the_lookup_arm_is_predicted_whole() -> None:
    got = predict(LOOKUP, ask(6), plain_answer(STREAM.reply_ids, "length"), DECLARED)
    assert got == Prediction(
        path="spec",
        drafter="lookup",
        tokens=6,
        reason="-",
        counts=Counts("spec", "lookup", 1, 4, 2, 2, 6, 0, None, "-"),
        rounds=(Round((2, 3, 4, 0), 2),),
        last=1,
        round_starts=(0,),
    )


def test_the_plain_arm_is_predicted_without_a_reason() -> None:
    got = predict(PLAIN, ask(6, temperature=0.8), plain_answer(STREAM.reply_ids, "length"), DECLARED)
    assert got is not None
    assert (got.counts, got.rounds, got.last) == (Counts("plain", "none", 0, 0, 0, 5, 6, 0, None, "-"), (), 1)


@pytest.mark.parametrize(("start", "drafter"), [(LOOKUP, "lookup"), (DRAFT, "dflash")])
def test_a_sampled_request_takes_the_plain_path_of_a_server_with_a_drafter_and_says_sampled(start: Any, drafter: str) -> None:
    got = predict(start, ask(6, temperature=0.8), plain_answer(STREAM.reply_ids, "length"), DECLARED)
    assert got is not None
    assert got.counts == Counts("plain", drafter, 0, 0, 0, 5, 6, 0, None, "sampled")


@pytest.mark.parametrize(
    ("ids", "finish", "stop_reason", "reason"),
    [
        ((1,), "length", None, "budget"),
        ((1,), "stop", "b", "ended"),
        ((), "stop", 1, "ended"),
        ((60, 61), "length", None, "no-match"),
        ((1, 2), "length", None, "-"),
    ],
)
def test_a_speculative_path_says_why_lookup_drafted_nothing(
    ids: tuple[int, ...], finish: str, stop_reason: str | int | None, reason: str
) -> None:
    got = predict(LOOKUP, ask(len(ids) or 4), plain_answer(ids, finish, stop_reason), DECLARED)
    assert got is not None
    assert (got.path, got.reason) == ("spec", reason)


NO_EXPECTATIONS = "no expectations came with the run"


@pytest.mark.parametrize(
    ("ids", "finish", "stop_reason", "reason", "unknown"),
    [
        ((1,), "length", None, "budget", ""),
        ((1,), "stop", "b", "ended", ""),
        ((), "stop", 1, "ended", ""),
        ((1,), "stop", 2, "-", NO_EXPECTATIONS),
        ((60, 61), "length", None, "-", NO_EXPECTATIONS),
    ],
)
def test_without_expectations_a_draft_arm_is_predicted_in_path_reason_and_tokens_and_whole_where_it_is_never_asked(
    ids: tuple[int, ...], finish: str, stop_reason: str | int | None, reason: str, unknown: str
) -> None:
    got = predict(DRAFT, ask(len(ids) if finish == "length" else 4), plain_answer(ids, finish, stop_reason), DECLARED)
    last = len(ids) if not unknown else None
    counts = None if unknown else Counts("spec", "dflash", 0, 0, 0, 0, len(ids), 0, None, reason)
    rounds = None if unknown else ()
    assert got == Prediction("spec", "dflash", len(ids), reason, counts, rounds, last, unknown, round_starts=rounds)


def test_an_end_token_inside_the_first_block_is_accepted_by_nobody() -> None:
    got = predict(LOOKUP, ask(6), plain_answer((1, 2), "stop", 3), DECLARED)
    assert got is not None
    assert got.counts == Counts("spec", "lookup", 1, 4, 1, 0, 2, 0, None, "-")
    assert (got.rounds, got.last) == ((Round((2, 3, 4, 0), 1),), 0)


def test_a_context_of_9_positions_leaves_3_tokens_and_so_2_drafts_before_a_stop() -> None:
    start = msgspec.structs.replace(LOOKUP, model="tiny+context=9")
    got = predict(start, ask(24), plain_answer((1, 2), "stop", "#"), DECLARED)
    assert got is not None
    assert got.rounds == (Round((2, 3), 1),)


def test_the_fallback_parameters_of_the_start_are_obeyed() -> None:
    start = lookup("fallback-9-1", 1, fallback_below=9, fallback_window=1)
    got = predict(start, ask(6), plain_answer(STREAM.reply_ids, "length"), DECLARED)
    assert got is not None
    assert got.counts == Counts("spec", "lookup", 1, 1, 1, 3, 6, 0, 1, "-")


def test_the_fallback_window_is_3_where_the_start_names_none() -> None:
    start = lookup("fallback-9", 1, fallback_below=9)
    stream = Stream("constant-1", "constant", (0, 1), (5,) * 12)
    got = predict(start, completion(stream, 12, "x"), plain_answer(stream.reply_ids, "length"), DECLARED)
    assert got is not None
    assert got.counts is not None
    assert got.counts.fallback == 3


@pytest.mark.parametrize(
    "plain",
    [
        Answer("r", None, "deadline"),
        Answer("r", 500),
        Answer("r", 200),
        Answer("r", 200, reply=Reply("x", "ab", None, "length", None, 6, 2)),
        Answer("r", 200, reply=Reply("x", "ab", (1, 2), None, None, 6, 2)),
        Answer("r", 200, reply=Reply("x", "ab", (1, 2), "stop", None, 6, 2)),
    ],
    ids=["unanswered", "failed", "no-reply", "no-ids", "unfinished", "stopped-by-nothing"],
)
def test_a_plain_answer_that_does_not_say_how_it_ended_predicts_nothing(plain: Answer) -> None:
    assert predict(LOOKUP, ask(6), plain, DECLARED) is None


def test_a_client_that_leaves_and_an_unknown_prompt_predict_nothing() -> None:
    plain = plain_answer(STREAM.reply_ids, "length")
    assert said_by(ask(6, leave_after_chunks=2), plain, LOOKUP) is None
    assert predict(LOOKUP, msgspec.structs.replace(ask(6), prompt_ids=()), plain, DECLARED) is None


def test_an_arm_without_oracle_predicts_nothing_and_one_declared_not_engaged_the_plain_path() -> None:
    plain = plain_answer(STREAM.reply_ids, "length")
    unknown = msgspec.structs.replace(DECLARED, arms={"lookup": ArmFacts("ngram")})
    silent = msgspec.structs.replace(DECLARED, arms={"lookup": ArmFacts("ngram", expect="not-engaged")})
    assert predict(LOOKUP, ask(6), plain, unknown) is None
    assert predict(LOOKUP, ask(6), plain, silent) == Prediction("plain", "ngram", 6)


def test_an_oracle_that_does_not_exist_is_refused_by_name() -> None:
    declared = msgspec.structs.replace(DECLARED, arms={"lookup": ArmFacts("ngram", oracle="lookup-12")})
    with pytest.raises(UsageError, match="arm lookup: oracle='lookup-12' is not known"):
        predict(LOOKUP, ask(6), plain_answer(STREAM.reply_ids, "length"), declared)


@settings(max_examples=150, deadline=None)
@given(
    prompt=st.lists(st.integers(0, 4), min_size=1, max_size=10),
    reply=st.lists(st.integers(0, 4), min_size=1, max_size=24),
    k=st.integers(1, 16),
    budget=st.integers(1, 24),
    stop=st.none() | st.text(alphabet='!"#$%', min_size=1, max_size=3),
    end=st.none() | st.integers(0, 4),
    below=st.sampled_from([0, 1.5, 2, 2.5, 4]),
    window=st.integers(1, 4),
)
def test_an_engine_that_steps_token_by_token_takes_the_predicted_path(
    prompt: list[int], reply: list[int], k: int, budget: int, stop: str | None, end: int | None, below: float, window: int
) -> None:
    stream = Stream("any-1", "any", tuple(prompt), tuple(reply))
    fields: dict[str, Any] = {"stop": stop} if stop else {}
    request = completion(stream, budget, "exact-counts", **fields)
    model = "tiny" if end is None else f"tiny+eos={end}"
    start = lookup("any", k, model=model, fallback_below=below, fallback_window=window)
    script = Script((stream,))
    plain = answer(script, msgspec.structs.replace(PLAIN, model=model), request, 1)
    got = answer(script, start, request, 1)
    want = predict(start, request, plain, DECLARED)
    assert want is not None
    assert (want.counts, want.rounds) == (got.counts, got.rounds)
