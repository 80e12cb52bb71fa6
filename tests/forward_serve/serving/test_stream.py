"""Streams: one write an event, nothing before the first token, and how they end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from forward_serve.serving.deliver import Part
from forward_serve.serving.dialect import Envelope, Said
from forward_serve.serving.request import Endpoint, Output
from forward_serve.serving.stream import EventStream
from tests.forward_serve.serving.toy import request


class Sent(list[bytes]):
    """Collects writes."""

    def events(self) -> list[Any]:
        """Every event's value, chunk framing taken off."""
        body = b"".join(self).split(b"\r\n\r\n", 1)[1]
        lines = [line for line in body.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data: ")]
        return [line[6:].decode() if line == b"data: [DONE]" else json.loads(line[6:]) for line in lines]


def stream(sent: Sent, endpoint: Endpoint = Endpoint.COMPLETION, *, is_chunked: bool = True, **output: bool) -> EventStream:
    asked = replace(request("xy"), endpoint=endpoint, output=Output(stream=True, **output))
    return EventStream(Envelope(asked, "id-1", 7, "toy"), sent.append, is_chunked=is_chunked)


def test_head_and_first_event_are_one_write_and_every_event_is_one() -> None:
    sent = Sent()
    events = stream(sent)
    assert not events.has_begun
    events.hear(Part("a", [1]))
    events.hear(Part("b", [2]))
    events.close(Said(Part("c", [3]), "stop"), {"total_tokens": 5})
    assert [write.count(b"data: ") for write in sent] == [1, 1, 3]
    assert sent[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nTransfer-Encoding: chunked\r\n" in sent[0]
    assert sent[-1].endswith(b"\r\n0\r\n\r\n")


def test_texts_join_and_the_closing_order_is_finish_usage_done() -> None:
    sent = Sent()
    events = stream(sent)
    events.hear(Part("a", [1]))
    events.close(Said(Part("b", [2]), "stop", "x"), {"total_tokens": 5})
    first, last, usage, done = sent.events()
    assert [first["choices"][0]["text"], last["choices"][0]["text"]] == ["a", "b"]
    assert (last["choices"][0]["finish_reason"], last["choices"][0]["stop_reason"]) == ("stop", "x")
    assert (usage["choices"], usage["usage"], done) == ([], {"total_tokens": 5}, "[DONE]")


def test_without_usage_there_is_no_usage_chunk() -> None:
    sent = Sent()
    stream(sent).close(Said(Part("b", [2]), "length"), None)
    assert len(sent.events()) == 2


@pytest.mark.parametrize(("shows_ids", "num_events"), [(False, 0), (True, 1)])
def test_a_token_whose_text_is_held_back_shows_only_where_ids_are_asked_for(shows_ids: bool, num_events: int) -> None:
    sent = Sent()
    stream(sent, return_token_ids=shows_ids).hear(Part("", [1]))
    assert len(sent) == num_events


def test_a_chat_opens_once_in_the_same_write_as_its_first_text() -> None:
    sent = Sent()
    events = stream(sent, Endpoint.CHAT)
    events.hear(Part("a", [1]))
    events.hear(Part("b", [2]))
    deltas = [event["choices"][0]["delta"] for event in sent.events()]
    assert deltas == [{"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}]
    assert len(sent) == 2


def test_a_stream_that_fails_ends_with_an_error_and_without_done() -> None:
    sent = Sent()
    events = stream(sent)
    events.hear(Part("a", [1]))
    events.break_off("pass 3 failed")
    assert sent.events()[-1]["error"]["message"] == "pass 3 failed"
    assert b"[DONE]" not in b"".join(sent)
    assert sent[-1].endswith(b"\r\n0\r\n\r\n")


def test_without_chunks_the_head_announces_that_the_connection_closes() -> None:
    sent = Sent()
    events = stream(sent, is_chunked=False)
    events.hear(Part("a", [1]))
    assert b"\r\nConnection: close\r\n" in sent[0]
    assert b"\r\n\r\ndata: {" in sent[0]
