"""Requests in SGLang's words: everything is carried over, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.records.plan import Request
from harness.subjects.sglang_request import to_sglang, untranslatable


def asking(**fields: Any) -> Request:
    return Request(id="r", checks=(), body={"prompt": "ab", "max_tokens": 5, **fields})


def test_prompt_and_budget_go_to_generate() -> None:
    sent = to_sglang(asking())
    assert (sent.path, sent.method, sent.id) == ("/generate", "POST", "r")
    assert sent.body == {"text": "ab", "sampling_params": {"max_new_tokens": 5}}


def test_a_budget_that_is_not_asked_for_is_openais() -> None:
    body = to_sglang(Request(id="r", checks=(), body={"prompt": [1, 2]})).body
    assert body == {"input_ids": [1, 2], "sampling_params": {"max_new_tokens": 16}}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        (
            {"temperature": 0.8, "top_k": 5, "top_p": 0.5, "seed": 7},
            {"temperature": 0.8, "top_k": 5, "top_p": 0.5, "sampling_seed": 7},
        ),
        ({"top_k": 0}, {"top_k": -1}),
        ({"top_k": None, "seed": None}, {}),
        ({"stop": ["a"], "ignore_eos": True}, {"stop": ["a"], "ignore_eos": True}),
        ({"logit_bias": {"5": -100}}, {"logit_bias": {"5": -100}}),
        (
            {"presence_penalty": 1, "frequency_penalty": 2, "repetition_penalty": 1.1},
            {"presence_penalty": 1, "frequency_penalty": 2, "repetition_penalty": 1.1},
        ),
        ({"structured_outputs": {"regex": "[ab]"}}, {"regex": "[ab]"}),
        ({"structured_outputs": {"json": {"type": "integer"}}}, {"json_schema": '{"type": "integer"}'}),
        ({"structured_outputs": None, "response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"json_schema": '{"type": "object"}'}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "null"}}}},
            {"json_schema": '{"type": "null"}'},
        ),
    ],
)
def test_a_field_of_sampling_is_carried_over(fields: dict[str, Any], want: dict[str, Any]) -> None:
    body = to_sglang(asking(**fields)).body
    assert body == {"text": "ab", "sampling_params": {"max_new_tokens": 5, **want}}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
        ({"logprobs": 3}, {"return_logprob": True, "top_logprobs_num": 3, "return_text_in_logprobs": True}),
        ({"logprobs": 0}, {"return_logprob": True, "top_logprobs_num": 0, "return_text_in_logprobs": True}),
        ({"logprobs": None}, {}),
        ({"logprobs": False}, {}),
        ({"return_token_ids": True, "return_spec": True}, {}),
    ],
)
def test_a_field_of_the_answer_is_carried_over(fields: dict[str, Any], want: dict[str, Any]) -> None:
    body = to_sglang(asking(**fields)).body
    assert body == {"text": "ab", "sampling_params": {"max_new_tokens": 5}, **want}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (asking(best_of=2), "field best_of"),
        (asking(response_format={"type": "odd"}), "type 'odd' is not known"),
        (asking(structured_outputs={"choice": ["a"]}), "choice is not taken over"),
        (asking(logprobs="many"), "field logprobs='many'"),
        (Request("r", (), body={"messages": []}, path="/v1/chat/completions"), "a request of its own kind to /v1/chat"),
        (Request("r", (), raw="{", path="/v1/completions"), "a request of its own kind"),
    ],
)
def test_what_it_has_no_words_for_is_named(request_: Request, message: str) -> None:
    assert message in untranslatable(request_)[0]
    if request_.body is not None:
        with pytest.raises(UsageError, match="not in SGLang's dialect"):
            to_sglang(request_)


def test_a_probe_is_sent_as_it_is() -> None:
    probe = Request(id="", checks=(), path="/ready", method="GET")
    assert to_sglang(probe) is probe
