"""The HTTP of runners that serve a library: bodies that are taken, bodies that are refused, and answers in turn."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import pytest
import requests

from harness.subjects.description import load_description
from harness.subjects.families.completions import FIELDS, BadRequestError, checked, handler_for


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "body: is no object"),
        ({"prompt": "a", "best_of": 2}, "best_of: unknown field"),
        ({"prompt": "a", "max_tokens": "3"}, "max_tokens: '3' is none of int"),
        ({"prompt": "a", "max_tokens": True}, "max_tokens: True is none of int"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens: 0 is below 1"),
        ({"prompt": ""}, "prompt: '' is neither"),
        ({"prompt": [1, -1]}, r"prompt: \[1, -1\] is neither"),
        ({}, "prompt: None is neither"),
    ],
    ids=str,
)
def test_a_body_that_cannot_be_served_is_refused_with_the_reason(body: Any, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        checked(body)


def test_fields_that_it_has_no_words_for_are_taken_where_they_ask_for_nothing() -> None:
    neutral = {"presence_penalty": 0, "frequency_penalty": 0.0, "repetition_penalty": 1, "logit_bias": {}, "logprobs": False}
    formats = {"response_format": {"type": "text"}, "structured_outputs": None}
    assert checked({"prompt": "a", **neutral, **formats}) == {"prompt": "a", "max_tokens": 16}
    assert checked({"prompt": "a", "logprobs": 0})["logprobs"] == 0
    with pytest.raises(BadRequestError, match="presence_penalty: unknown field"):
        checked({"prompt": "a", "presence_penalty": 0.5})


def test_null_asks_for_nothing_and_one_stop_is_a_list_of_one() -> None:
    assert checked({"prompt": "a", "seed": None, "stop": "x"}) == {"prompt": "a", "max_tokens": 16, "stop": ["x"]}


def test_every_field_that_a_plan_may_ask_is_known_or_left_out() -> None:
    left_out = set(load_description("transformers").dialect.leaves_out)
    assert set(FIELDS) | left_out >= {"prompt", "max_tokens", "temperature", "return_token_ids", "return_spec", "stop", "seed"}


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(lambda body, name: {"id": name, "max_tokens": body["max_tokens"]}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_over_http_it_answers_in_turn_refuses_with_400_and_goes_on(address: str) -> None:
    with requests.Session() as session:
        assert session.get(f"{address}/health", timeout=5).status_code == 200
        assert session.get(f"{address}/else", timeout=5).status_code == 404
        assert session.post(f"{address}/v1/else", json={}, timeout=5).status_code == 404
        for content, place in (("{", "Expecting"), (json.dumps({"prompt": "a", "x": 1}), "x: unknown field")):
            refused = session.post(f"{address}/v1/completions", data=content, timeout=5)
            assert (refused.status_code, place in refused.json()["error"]["message"]) == (400, True)
        answers = [session.post(f"{address}/v1/completions", json={"prompt": "a", "max_tokens": 2}, timeout=5) for _ in range(2)]
    assert [one.json()["id"] for one in answers] == ["cmpl-1", "cmpl-2"]
    assert [one.json()["max_tokens"] for one in answers] == [2, 2]
