"""Bodies and chunks in the dialect: what stands where, for both endpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forward_serve.errors import RequestError
from forward_serve.serving.deliver import Part
from forward_serve.serving.dialect import Envelope, Said, models_body, refusal_body, usage_of
from forward_serve.serving.request import Endpoint, Output
from tests.forward_serve.serving.toy import request

SPEC = {"path": "spec"}
SAID = Said(Part("ab", [1, 2]), "stop", "c")


def envelope(endpoint: Endpoint = Endpoint.COMPLETION, **output: bool) -> Envelope:
    return Envelope(replace(request("xy"), endpoint=endpoint, output=Output(**output)), "id-1", 7, "toy")


def usage(**output: bool) -> dict[str, Any]:
    return usage_of(envelope(Endpoint.COMPLETION, **output).request, 2, 0, SPEC)


def test_a_completion_has_text_finish_stop_reason_and_usage() -> None:
    choice = {"index": 0, "text": "ab", "logprobs": None, "finish_reason": "stop", "stop_reason": "c"}
    head = {"id": "id-1", "object": "text_completion", "created": 7, "model": "toy"}
    assert envelope().body(SAID, usage()) == {**head, "choices": [choice], "usage": usage()}


def test_usage_counts_prompt_reply_and_cached_tokens() -> None:
    counts = {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4, "prompt_tokens_details": {"cached_tokens": 0}}
    assert usage() == counts
    assert usage(return_spec=True) == {**counts, "spec": SPEC}


def test_a_completions_ids_stand_in_its_choice() -> None:
    body = envelope(return_token_ids=True).body(SAID, usage())
    assert body["choices"][0]["token_ids"] == [1, 2]
    assert body["choices"][0]["prompt_token_ids"] == [120, 121]
    assert "prompt_token_ids" not in body


def test_a_chats_prompt_ids_stand_at_the_top() -> None:
    body = envelope(Endpoint.CHAT, return_token_ids=True).body(SAID, usage())
    assert body["object"] == "chat.completion"
    assert body["prompt_token_ids"] == [120, 121]
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "ab"}
    assert "prompt_token_ids" not in body["choices"][0]


def test_a_chat_stream_opens_with_the_role_and_goes_on_with_deltas() -> None:
    chat = envelope(Endpoint.CHAT, return_token_ids=True)
    opening = chat.opening()
    assert opening is not None
    assert opening["object"] == "chat.completion.chunk"
    assert opening["prompt_token_ids"] == [120, 121]
    assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chat.chunk(Said(Part("a", [1])), is_first=True)["choices"][0]["delta"] == {"content": "a"}
    assert chat.chunk(Said(Part("", []), "length"), is_first=False)["choices"][0]["delta"] == {}


def test_a_completion_streams_first_chunk_carries_the_prompt_ids() -> None:
    completion = envelope(return_token_ids=True)
    assert completion.opening() is None
    assert completion.chunk(Said(Part("a", [1])), is_first=True)["choices"][0]["prompt_token_ids"] == [120, 121]
    assert "prompt_token_ids" not in completion.chunk(Said(Part("a", [1])), is_first=False)["choices"][0]


def test_the_usage_chunk_has_no_choice() -> None:
    chunk = envelope().usage_chunk(usage())
    assert (chunk["choices"], chunk["usage"]) == ([], usage())


def test_a_refusal_names_message_type_and_field() -> None:
    error = {"message": "n: 2", "type": "invalid_request_error", "param": "n"}
    assert refusal_body(RequestError("n: 2", "n")) == {"error": error}
    assert refusal_body(RequestError("path"))["error"]["param"] is None


def test_the_model_list_names_alias_and_context() -> None:
    (model,) = models_body("toy", 7, 64)["data"]
    assert (model["id"], model["max_model_len"], model["created"]) == ("toy", 64, 7)
