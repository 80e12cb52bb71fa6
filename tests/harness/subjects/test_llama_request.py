"""Requests in llama.cpp's words: everything is carried over, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.records.plan import Request
from harness.subjects.llama_request import DEFAULTS, to_llama, untranslatable

PROMPT = {"prompt": "ab", "max_tokens": 5}


def asking(**fields: Any) -> Request:
    return Request(id="r", checks=(), body={**PROMPT, **fields})


def added(**fields: Any) -> dict[str, Any]:
    """What fields of a plan's body add to the one that is sent, beside the prompt, the budget and the defaults."""
    body = to_llama(asking(**fields)).body
    assert body is not None
    return {
        name: value for name, value in body.items() if DEFAULTS.get(name, ...) != value and name not in ("prompt", "n_predict")
    }


def test_prompt_and_budget_go_to_completion_with_openai_s_defaults() -> None:
    sent = to_llama(asking())
    assert (sent.path, sent.method, sent.id) == ("/completion", "POST", "r")
    assert sent.body == {"prompt": "ab", "n_predict": 5, **DEFAULTS}
    assert (DEFAULTS["temperature"], DEFAULTS["top_k"], DEFAULTS["top_p"], DEFAULTS["min_p"]) == (1.0, 0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"prompt": [1, 2]}, {}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": 0.8, "top_k": 5, "top_p": 0.5, "seed": 7}, {"temperature": 0.8, "top_k": 5, "top_p": 0.5, "seed": 7}),
        ({"stop": ["a", "b"]}, {"stop": ["a", "b"]}),
        ({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
        ({"ignore_eos": True}, {"ignore_eos": True}),
        ({"logprobs": 3}, {"n_probs": 3}),
        ({"logprobs": 0}, {"n_probs": 1}),
        ({"logprobs": None}, {}),
        ({"logprobs": False}, {}),
        ({"logit_bias": {"5": -100, "6": 2.5}}, {"logit_bias": [[5, -100], [6, 2.5]]}),
        (
            {"presence_penalty": 1, "frequency_penalty": 2, "repetition_penalty": 1.1},
            {"presence_penalty": 1, "frequency_penalty": 2, "repeat_penalty": 1.1},
        ),
        ({"return_token_ids": True, "return_spec": True}, {"return_tokens": True}),
        ({"structured_outputs": {"regex": "[a-b]{2}"}}, {"grammar": "root ::= [a-b]{2}"}),
        ({"structured_outputs": {"json": {"type": "integer"}}}, {"json_schema": {"type": "integer"}}),
        ({"structured_outputs": None}, {}),
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"json_schema": {"type": "object"}}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "null"}}}},
            {"json_schema": {"type": "null"}},
        ),
    ],
)
def test_a_field_is_carried_over_under_its_other_name(fields: dict[str, Any], want: dict[str, Any]) -> None:
    assert added(**fields) == want


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"no_such_field": 1}, "field no_such_field"),
        ({"user": "me"}, "field user"),
        ({"logprobs": "x"}, "field logprobs='x'"),
        ({"logit_bias": {"a": 1}}, "field logit_bias"),
        ({"structured_outputs": {"regex": "a.b"}}, "not taken over"),
        ({"structured_outputs": {"choice": ["a"]}}, "choice is not taken over"),
        ({"structured_outputs": {"regex": "a", "json": {}}}, "field structured_outputs"),
        ({"response_format": {"type": "json_schema"}}, "field response_format"),
        ({"response_format": {"type": "xml"}}, "type 'xml' is not known"),
        ({"response_format": "text"}, "field response_format"),
    ],
)
def test_what_has_no_words_is_named_and_never_dropped(fields: dict[str, Any], why: str) -> None:
    request = asking(**fields)
    assert [why in words for words in untranslatable(request)] == [True]
    with pytest.raises(UsageError, match="not in llama.cpp's dialect"):
        to_llama(request)


@pytest.mark.parametrize(
    "request_", [Request(id="r", checks=(), raw="{"), Request(id="r", checks=(), path="/v1/chat/completions", body=dict(PROMPT))]
)
def test_a_request_of_another_kind_has_no_words(request_: Request) -> None:
    assert untranslatable(request_) == (f"a request of its own kind to {request_.path}",)


def test_a_question_without_a_body_goes_as_it_is() -> None:
    health = Request(id="h", checks=(), path="/health", method="GET")
    assert to_llama(health) is health
    assert untranslatable(health) == ()
