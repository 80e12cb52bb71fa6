"""Bodies and streams of the dialect as replies, and what breaks the dialect as a reason."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.records.plan import Request
from harness.records.recording import Chunk
from harness.subjects.answers import identity_of, read_answer
from harness.subjects.client import Exchange
from harness.subjects.description import load_description

from .test_counts import USAGE

DESCRIPTION = load_description("forward-serve")
COMPLETION = Request(id="r", checks=(), body={})
CHOICE = {"index": 0, "text": "ab", "finish_reason": "stop", "stop_reason": "b", "logprobs": None, "token_ids": [5, 6]}
BODY = {
    "id": "cmpl-1",
    "choices": [CHOICE],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}, "spec": USAGE},
}


def whole(body, status=200, request=COMPLETION):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_answer(request, Exchange(status=status, body=content), DESCRIPTION)


def streamed(*events, failure="", saw_done=True):
    contents = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    status = None if failure else 200
    exchange = Exchange(status=status, failure=failure, is_stream=True, events=contents, saw_done=saw_done)
    return read_answer(COMPLETION, exchange, DESCRIPTION)


def event(text, ids=(), **fields):
    return {"id": "cmpl-1", "choices": [{"index": 0, "text": text, "token_ids": list(ids), **fields}], "usage": None}


def test_a_completion_is_read_in_full():
    answer = whole(BODY)
    assert answer.failure == ""
    reply = answer.reply
    assert (reply.response_id, reply.text, reply.ids, reply.finish_reason, reply.stop_reason) == (
        "cmpl-1",
        "ab",
        (5, 6),
        "stop",
        "b",
    )
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == (3, 2, 1)
    assert (answer.usage_counts.rounds, [one.num_accepted for one in answer.rounds]) == (2, [1, 0])
    assert answer.body == BODY


def test_a_chat_completion_is_read_by_its_message():
    message = {"id": "chat-1", "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "length"}]}
    answer = whole(message, request=Request(id="r", checks=(), body={}, path="/v1/chat/completions"))
    assert (answer.failure, answer.reply.text, answer.reply.ids, answer.reply.prompt_tokens) == ("", "hi", None, None)


def test_a_refused_request_has_its_body_and_no_reply():
    body = {"error": {"message": "max_tokens=0", "type": "invalid", "param": "max_tokens"}}
    answer = whole(body, status=400)
    assert (answer.status, answer.failure, answer.body, answer.reply) == (400, "", body, None)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"id": None}, "id=None is no string"),
        ({"id": 7}, "id=7 is no string"),
        ({"choices": []}, "choices=[]; want a list of one object"),
        ({"choices": [CHOICE, CHOICE]}, "want a list of one object"),
        ({"choices": "x"}, "want a list of one object"),
        ({"choices": [CHOICE | {"text": None}]}, "choices[0] text=None is no string"),
        ({"choices": [CHOICE | {"token_ids": [1, "2"]}]}, "choices[0].token_ids=[1, '2'] is no list of ids"),
        ({"choices": [CHOICE | {"token_ids": [True]}]}, "choices[0].token_ids=[True] is no list of ids"),
        ({"choices": [CHOICE | {"finish_reason": 3}]}, "choices[0].finish_reason=3 is no string"),
        ({"choices": [CHOICE | {"stop_reason": [1]}]}, "choices[0].stop_reason=[1] is neither string, id nor null"),
        ({"usage": []}, "usage=[] is no object"),
        ({"usage": {"prompt_tokens": "3"}}, "usage prompt_tokens='3' is no count"),
        ({"usage": {"prompt_tokens_details": 3}}, "usage.prompt_tokens_details=3 is no object"),
        ({"usage": {"spec": {}}}, "are missing or unknown"),
        ({"usage": {"spec": USAGE | {"tokens": "3"}}}, "tokens='3' is no count"),
    ],
)
def test_a_body_that_breaks_the_dialect_is_a_failure_beside_its_status(changes, why):
    answer = whole(BODY | changes)
    assert answer.status == 200
    assert why in answer.failure
    msgspec.json.encode(answer)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"NaN", b'{"a": Infinity}', b'"\\ud800"', b"\xff", b"[" * 100_000, b'{"a": 1e400}', b"<html>"],
)
def test_what_is_not_json_is_a_failure_that_shows_its_beginning(content):
    answer = whole(content)
    assert answer.failure.startswith("body is not JSON: ")
    assert repr(content[:80]) in answer.failure
    assert (answer.status, answer.body, answer.reply) == (200, None, None)


def test_a_probe_may_be_answered_with_nothing():
    assert whole(b"", request=Request(id="r", checks=(), method="GET", path="/health")).failure == ""


def test_an_answer_of_another_endpoint_is_a_body_alone():
    answer = whole({"data": []}, request=Request(id="r", checks=(), method="GET", path="/v1/models"))
    assert (answer.failure, answer.body, answer.reply) == ("", {"data": []}, None)


@settings(deadline=None, max_examples=6000)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["id", "choices", "text", "message", "content", "token_ids", "usage", "spec", "logprobs", "delta"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_body_whatever_makes_reading_raise(body):
    for answer in (whole(body), streamed(body), streamed(event("a"), body)):
        assert answer.reply is not None or answer.failure != ""
        msgspec.json.encode(answer)


def test_a_stream_adds_up_to_its_reply():
    usage = {"id": "cmpl-1", "choices": [], "usage": BODY["usage"]}
    answer = streamed(event("a", [5]), event("", []), event("b", [6], finish_reason="stop", stop_reason=9), usage)
    assert (answer.failure, answer.saw_done) == ("", True)
    assert answer.chunks == (
        Chunk("a", (5,)),
        Chunk(""),
        Chunk("b", (6,), "stop"),
        Chunk("", has_usage=True),
    )
    reply = answer.reply
    assert (reply.text, reply.ids, reply.finish_reason, reply.stop_reason, reply.completion_tokens) == (
        "ab",
        (5, 6),
        "stop",
        9,
        2,
    )
    assert answer.usage_counts.tokens == 3
    assert len(answer.rounds) == 2


def test_a_streamed_chat_is_read_by_its_deltas():
    def delta(**content):
        return {"id": "chat-1", "choices": [{"delta": content}]}

    answer = streamed(delta(role="assistant"), delta(content="h"), delta(content="i"))
    assert (answer.failure, answer.reply.text, [chunk.text for chunk in answer.chunks]) == ("", "hi", ["", "h", "i"])


def test_log_probabilities_of_chunks_are_joined_key_by_key():
    parts = [event("a", logprobs={"tokens": ["a"], "token_logprobs": [-1.0]}), event("b", logprobs={"tokens": ["b"]}), event("c")]
    assert streamed(*parts).reply.logprobs == {"tokens": ["a", "b"], "token_logprobs": [-1.0]}


@pytest.mark.parametrize(
    ("events", "why", "num_chunks"),
    [
        ((), "stream: carried no event", 0),
        ((event("a"), event("b") | {"id": "cmpl-2"}), "events of several ids 'cmpl-1', 'cmpl-2'", 2),
        ((event("a") | {"id": []},), "id=[] is no string", 1),
        ((event("a"), event("b") | {"id": {}}), "events of several ids 'cmpl-1', {}", 2),
        ((event("a"), b"{"), "body is not JSON", 1),
        ((event("a"), {"error": {"message": "pass failed"}}), "stream: carried an error: {'message': 'pass failed'}", 1),
        ((event("a"), event(None)), "choices[0].text=None is no string", 1),
        ((event("a", logprobs=[1]),), "logprobs=[1] is no object", 1),
    ],
)
def test_a_stream_that_breaks_the_dialect_keeps_what_came_before(events, why, num_chunks):
    answer = streamed(*events)
    assert why in answer.failure
    assert (len(answer.chunks), answer.reply) == (num_chunks, None)


def test_a_stream_that_was_left_keeps_its_chunks_and_its_identity():
    exchange = Exchange(failure="left", is_stream=True, events=[json.dumps(event("a", [5])).encode()])
    answer = read_answer(COMPLETION, exchange, DESCRIPTION)
    assert (answer.status, answer.failure, answer.chunks, answer.reply) == (None, "left", (Chunk("a", (5,)),), None)
    assert identity_of(answer, exchange) == "cmpl-1"


def test_an_answer_without_an_id_has_no_identity():
    exchange = Exchange(status=500, body=b'{"error": {}}')
    assert identity_of(read_answer(COMPLETION, exchange, DESCRIPTION), exchange) == ""
    broken = Exchange(failure="reset", is_stream=True, events=[b"{"])
    assert identity_of(read_answer(COMPLETION, broken, DESCRIPTION), broken) == ""
