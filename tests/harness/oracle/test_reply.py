from __future__ import annotations

from typing import Any

import pytest

from harness.oracle.reply import ExpectedReply, budget_of, expected_reply
from harness.plans.requests import completion
from harness.records.expectation import Choice, ModelFacts, Saying
from harness.records.fixture import Stream

PROMPT = Stream("s", "main", (40, 41), ())
FACTS = ModelFacts("w", end_tokens=(185, 187), context=1024)
TOKENS = (64, 65, 66, 67, 68)  # "abcde"


def choices(*tokens: int, margin: float = 0.5) -> tuple[Choice, ...]:
    return tuple(Choice(token, margin, False, False) for token in tokens)


def reply(budget: int = 5, tokens: tuple[int, ...] = TOKENS, facts: ModelFacts = FACTS, **fields: Any) -> ExpectedReply | None:
    return expected_reply(completion(PROMPT, budget, "x", **fields), Saying("w", PROMPT.prompt_ids, choices(*tokens)), facts)


def ended(got: ExpectedReply | None) -> tuple[Any, ...]:
    assert got is not None
    return got.ids, got.text, got.finish_reason, got.stop_reason


def test_a_budget_cuts_what_is_said() -> None:
    assert ended(reply(3)) == ((64, 65, 66), "abc", "length", None)


def test_the_context_cuts_a_larger_budget() -> None:
    short = ModelFacts("w", (185,), context=6)
    assert ended(reply(5, facts=short)) == ((64, 65, 66, 67), "abcd", "length", None)
    assert budget_of(completion(PROMPT, 5, "x"), short) == 4


def test_an_end_token_is_in_nothing_and_ignore_eos_goes_on() -> None:
    tokens = (64, 187, 66)
    assert ended(reply(3, tokens)) == ((64,), "a", "stop", 187)
    assert ended(reply(3, tokens, ignore_eos=True)) == (tokens, "a<|endoftext|>c", "length", None)


def test_an_end_token_behind_the_budget_ends_nothing() -> None:
    assert ended(reply(1, (64, 187))) == ((64,), "a", "length", None)


def test_a_stop_cuts_the_text_and_keeps_the_ids_that_completed_it() -> None:
    assert ended(reply(5, stop=["bc"])) == ((64, 65, 66), "a", "stop", "bc")
    assert ended(reply(5, stop="d")) == ((64, 65, 66, 67), "abc", "stop", "d")


def test_of_stops_completed_by_one_token_the_earliest_start_cuts() -> None:
    assert ended(reply(5, stop=["c", "bc"])) == ((64, 65, 66), "a", "stop", "bc")


def test_a_stop_completed_by_the_last_token_of_the_budget_wins() -> None:
    assert ended(reply(3, stop=["c"])) == ((64, 65, 66), "ab", "stop", "c")


@pytest.mark.parametrize("fields", [{}, {"stop": ["zz"]}])
def test_what_is_not_known_to_its_end_is_no_reply(fields: dict[str, Any]) -> None:
    assert reply(6, **fields) is None


def test_only_choices_that_were_taken_decide_whether_a_reply_is_certain() -> None:
    saying = Saying("w", PROMPT.prompt_ids, (*choices(64, 65), *choices(66, margin=1e-6)))
    certain = expected_reply(completion(PROMPT, 2, "x"), saying, FACTS)
    near = expected_reply(completion(PROMPT, 3, "x"), saying, FACTS)
    assert certain is not None
    assert near is not None
    assert (certain.is_certain, near.is_certain) == (True, False)


def test_the_choice_of_an_end_token_counts_too() -> None:
    near = expected_reply(completion(PROMPT, 3, "x"), Saying("w", (), (*choices(64), *choices(185, margin=1e-6))), FACTS)
    assert near is not None
    assert (near.stop_reason, near.is_certain) == (185, False)
