"""Both dialects: what a body says, and that saying the same again changes no byte of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.mutation.relay.llama import Llama
from harness.mutation.relay.openai import OpenAI
from harness.mutation.relay.said import END, LENGTH, WORD, Said
from tests.harness.mutation.relay import bodies

OPENAI, LLAMA = OpenAI(bodies.FIELDS), Llama(bodies.FIELDS)
ids = st.lists(st.integers(0, 255), min_size=1, max_size=8).map(tuple)


@given(ids, st.text(max_size=8), st.sampled_from([("length", None), ("stop", "xy"), ("stop", 7), ("stop", None)]))
@settings(max_examples=40, deadline=None)
def test_an_openai_body_that_says_the_same_again_is_the_same(tokens: Any, text: str, end: Any) -> None:
    body = bodies.openai(text, tokens, *end)
    said = OPENAI.said(body)
    assert said is not None
    assert OPENAI.saying(body, said) == body
    record = OPENAI.record(body)
    assert record is not None
    assert OPENAI.recording(body, record) == body


@given(ids, st.text(max_size=8), st.sampled_from(["limit", "word", "eos"]), st.sampled_from([None, (4, 1)]))
@settings(max_examples=40, deadline=None)
def test_a_llama_body_that_says_the_same_again_is_the_same(tokens: Any, text: str, kind: str, drafted: Any) -> None:
    body = bodies.llama(text, tokens, kind, "xy" if kind == "word" else "", drafted)
    said = LLAMA.said(body)
    assert said is not None
    assert LLAMA.saying(body, said) == body
    record = LLAMA.record(body)
    assert record is not None
    assert LLAMA.recording(body, record) == body


def test_how_a_reply_ended_is_told_alike_in_both_dialects() -> None:
    assert OPENAI.said(bodies.openai("ab", (1, 2), "stop", 3)) == Said((1, 2), "ab", END, 3)
    assert LLAMA.said(bodies.llama("ab", (1, 2, 3), "eos")) == Said((1, 2), "ab", END, 3)
    assert OPENAI.said(bodies.openai("ab", (1, 2), "stop", "c")) == Said((1, 2), "ab", WORD, "c")
    assert LLAMA.said(bodies.llama("ab", (1, 2), "word", "c")) == Said((1, 2), "ab", WORD, "c")
    assert OPENAI.said(bodies.openai("ab", (1, 2))) == LLAMA.said(bodies.llama("ab", (1, 2))) == Said((1, 2), "ab", LENGTH, None)


def test_a_reply_of_another_length_is_counted_anew() -> None:
    shorter = Said((1,), "a", LENGTH, None)
    assert OPENAI.saying(bodies.openai(), shorter)["usage"]["completion_tokens"] == 1
    changed = LLAMA.saying(bodies.llama(), shorter)
    assert (changed["tokens_predicted"], changed["timings"]["predicted_n"]) == (1, 1)
    ended = LLAMA.saying(bodies.llama("ab", (1, 2, 3), "eos"), Said((1, 2), "ab", LENGTH, None))
    assert (ended["tokens"], ended["tokens_predicted"], ended["stop_type"]) == ([1, 2], 2, "limit")


@pytest.mark.parametrize("speech", [OPENAI, LLAMA])
@pytest.mark.parametrize(
    "body", [{}, {"error": {"message": "no"}}, {"choices": [], "usage": {}}, {"choices": "x", "stop_type": 3}]
)
def test_what_is_no_reply_says_nothing(speech: Any, body: dict[str, Any]) -> None:
    assert speech.said(body) is None
    assert speech.scores(body) is None
    assert speech.record(body) is None


def test_a_chat_is_said_and_changed_in_its_message_and_its_delta() -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": "ab"}, "finish_reason": "length", "token_ids": [1, 2]}]}
    said = OPENAI.said(body)
    assert said == Said((1, 2), "ab", LENGTH, None)
    assert OPENAI.saying(body, Said((1,), "a", LENGTH, None))["choices"][0]["message"]["content"] == "a"
    event = {"choices": [{"delta": {"content": "ab"}, "finish_reason": None}]}
    assert OPENAI.delta(event) == "ab"
    assert OPENAI.delta(OPENAI.showing(event, "c")) == "c"


def test_a_body_without_ids_stays_without() -> None:
    body = bodies.openai("abc", None)
    assert OPENAI.said(body) == Said(None, "abc", LENGTH, None)
    assert "token_ids" not in OPENAI.saying(body, Said(None, "ab", LENGTH, None))["choices"][0]


def test_two_events_joined_show_both_and_say_what_the_later_one_says() -> None:
    one = {"choices": [{"text": "a", "token_ids": [1], "finish_reason": None}]}
    other = {"choices": [{"text": "b", "token_ids": [2], "finish_reason": "length"}]}
    assert OPENAI.joined(one, other) == {"choices": [{"text": "ab", "token_ids": [1, 2], "finish_reason": "length"}]}
    first, last = (
        {"content": "a", "tokens": [1], "stop": False},
        {"content": "", "tokens": [], "stop": True, "stop_type": "limit"},
    )
    assert LLAMA.joined(first, last) == {"content": "a", "tokens": [1], "stop": True, "stop_type": "limit"}


def test_scores_come_a_row_for_each_token_and_go_back_as_they_were() -> None:
    body = bodies.openai()
    body["choices"][0]["logprobs"] = {name: [one[name] for one in bodies.SCORES] for name in bodies.SCORES[0]}
    assert OPENAI.scores(body) == bodies.SCORES
    assert OPENAI.scoring(body, bodies.SCORES) == body
    assert OPENAI.scoring(body, None)["choices"][0]["logprobs"] is None
    rows = [{"token": "a", "logprob": -1.0, "top_logprobs": []}, {"token": "b", "logprob": 0.0}]
    scored = {**bodies.llama(), "completion_probabilities": rows}
    assert LLAMA.scores(scored) == rows
    assert LLAMA.scoring(scored, rows) == scored
    assert "completion_probabilities" not in LLAMA.scoring(scored, None)


def test_what_a_request_asks_is_read_in_each_dialects_own_fields() -> None:
    assert (OPENAI.generates("/v1/completions"), OPENAI.generates("/completion")) == (True, False)
    assert (LLAMA.generates("/v1/completions"), LLAMA.generates("/completion")) == (False, True)
    assert (OPENAI.budget({"max_tokens": 3}), OPENAI.budget({}), LLAMA.budget({"n_predict": 4})) == (3, 16, 4)
    assert (OPENAI.samples({}), OPENAI.samples({"temperature": 0})) == (True, False)
    assert (OPENAI.stops({"stop": "a"}), OPENAI.stops({"stop": ["a", "b"]}), OPENAI.stops({})) == (("a",), ("a", "b"), ())


@pytest.mark.parametrize("speech", [OPENAI, LLAMA])
def test_an_empty_reply_is_a_reply_of_no_token(speech: Any) -> None:
    said = speech.said(speech.empty({"prompt": "x"}))
    assert said is not None
    assert (said.num_tokens, said.text, said.finish) == (0, "", LENGTH)
