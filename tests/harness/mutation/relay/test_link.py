"""One connection through the relay, over real sockets: what is passed on byte for byte, when, and what a client that leaves causes."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from harness.mutation.relay.fault import Fault
from harness.mutation.relay.link import Between, Events, Link, event_of, read_event
from harness.mutation.relay.wire import CLOSING_CHUNK, Peer, body_of_request, chunk
from tests.harness.mutation.relay.bodies import fault, openai

PATIENCE_S = 10.0
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
Serve = Callable[[Peer], None]


def request(path: str = "/v1/completions", **body: Any) -> bytes:
    content = json.dumps({"prompt": "p", "max_tokens": 6, "temperature": 0, **body}).encode()
    return b"POST %s HTTP/1.1\r\nHost: x\r\nX-Odd:  kept \r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(content)) + content


def whole(body: Any, status: str = "200 OK") -> bytes:
    content = json.dumps(body).encode()
    return b"HTTP/1.1 %s\r\nserver: me\r\nContent-Length: %d\r\n\r\n" % (status.encode(), len(content)) + content


def event(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"id": "cmpl-7", "choices": [{"text": text, "token_ids": [1] * len(text), "finish_reason": finish}]}


def read_request(subject: Peer) -> bytes:
    """Read one request as it came; b"" at the end of the connection."""
    head = subject.head()
    return b"" if head is None else head.raw + b"".join(raw for raw, _ in subject.parts(body_of_request(head)))


@contextmanager
def linked(one: Fault, serve: Serve, metrics: Any = None) -> Iterator[tuple[socket.socket, list[str], Future[None]]]:
    """Give the client's socket, the order of drains and of what the subject's side did, and the subject's end."""
    client, near = socket.socketpair()
    ours, theirs = socket.socketpair()
    client.settimeout(PATIENCE_S)
    theirs.settimeout(PATIENCE_S)
    drains: list[str] = []
    numbers = itertools.count(1)
    between = Between(one, lambda: Peer(ours), lambda: drains.append("drained"), lambda: next(numbers), metrics)
    with ThreadPoolExecutor(2) as pool, client, theirs:
        link = pool.submit(Link(Peer(near), between).serve)
        subject = pool.submit(serve, Peer(theirs))
        try:
            yield client, drains, subject
        finally:
            client.close()
            theirs.close()
            link.result(PATIENCE_S)


def received(client: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size and (part := client.recv(size - len(content))):
        content += part
    return content


def answering(*answers: bytes, seen: list[bytes] | None = None) -> Serve:
    def serve(subject: Peer) -> None:
        for answer in answers:
            asked = read_request(subject)
            if seen is not None:
                seen.append(asked)
            subject.send(answer)

    return serve


def test_requests_and_answers_of_one_connection_pass_byte_for_byte() -> None:
    chunked = STREAM.replace(b"text/event-stream", b"application/json") + b"3;x=1\r\nabc\r\n0\r\nX-T: 1\r\n\r\n"
    asked = [request(), b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", request("/v1/chat/completions")]
    answers = [whole(openai()), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", chunked]
    seen: list[bytes] = []
    with linked(fault("nothing"), answering(*answers, seen=seen)) as (client, drains, _):
        for one, answer in zip(asked, answers, strict=True):
            client.sendall(one)
            assert received(client, len(answer)) == answer
    assert seen == asked
    assert drains


def test_an_answer_reaches_the_client_part_by_part() -> None:
    answer = whole({"choices": "later"})
    was_seen = threading.Event()

    def serve(subject: Peer) -> None:
        read_request(subject)
        subject.send(answer[:-4])
        assert was_seen.wait(PATIENCE_S)
        subject.send(answer[-4:])

    with linked(fault("nothing"), serve) as (client, _, _subject):
        client.sendall(request())
        assert received(client, len(answer) - 4) == answer[:-4]
        was_seen.set()
        assert received(client, 4) == answer[-4:]


def test_a_fault_that_reads_answers_and_leaves_one_alone_passes_its_bytes() -> None:
    refused = whole({"error": {"message": "no"}}, "400 Bad")
    with linked(fault("token-dropped"), answering(refused)) as (client, _, _subject):
        client.sendall(request())
        assert received(client, len(refused)) == refused


def test_a_changed_reply_has_its_own_length_and_all_other_headers() -> None:
    with linked(fault("token-dropped"), answering(whole(openai()))) as (client, _, _subject):
        client.sendall(request())
        peer = Peer(client)
        head = peer.head()
        assert head is not None
        assert head.headers["server"] == "me"
        content = received(client, int(head.headers["content-length"]) - len(peer._rest))
        assert json.loads(peer._rest + content)["choices"][0]["text"] == "abcef"


def test_a_changed_request_reaches_the_subject_with_its_own_length() -> None:
    seen: list[bytes] = []
    one = fault("fields-dropped", fields=["stop"])
    with linked(one, answering(whole(openai()), seen=seen)) as (client, _, _subject):
        client.sendall(request(stop=["x"]))
        received(client, 10)
    assert json.loads(seen[0].partition(b"\r\n\r\n")[2]) == {"prompt": "p", "max_tokens": 6, "temperature": 0}
    assert b"X-Odd:  kept \r\n" in seen[0]


@pytest.mark.parametrize("name", ["nothing", "stream-finish-doubled"])
def test_an_event_is_passed_on_before_the_next_one_is_made(name: str) -> None:
    first, second = event_of(event("a")), event_of(event("b", "length"))
    was_seen = threading.Event()

    def serve(subject: Peer) -> None:
        read_request(subject)
        subject.send(STREAM + chunk(first))
        assert was_seen.wait(PATIENCE_S)
        subject.send(chunk(second) + chunk(b"data: [DONE]\n\n") + CLOSING_CHUNK)

    with linked(fault(name), serve) as (client, _, subject):
        client.sendall(request(stream=True))
        start = STREAM + chunk(first)
        assert received(client, len(start)) == start
        was_seen.set()
        twice = name != "nothing"
        end = chunk(second * (1 + twice)) + chunk(b"data: [DONE]\n\n") + CLOSING_CHUNK
        assert received(client, len(end)) == end
        subject.result(PATIENCE_S)


def test_a_client_that_leaves_mid_stream_closes_the_subjects_connection_and_the_fault_knows_what_it_was_shown() -> None:
    one = fault("reply-left-behind")

    def serve(subject: Peer) -> None:
        read_request(subject)
        subject.send(STREAM + chunk(event_of(event("abc"))))
        assert subject.socket.recv(1) == b""

    with linked(one, serve) as (client, _, subject):
        client.sendall(request(stream=True))
        start = STREAM + chunk(event_of(event("abc")))
        assert received(client, len(start)) == start
        client.close()
        subject.result(PATIENCE_S)
    assert one.rest == "c"  # type: ignore[attr-defined]


def test_a_client_that_leaves_before_its_answer_closes_the_subjects_connection() -> None:
    def serve(subject: Peer) -> None:
        read_request(subject)
        assert subject.socket.recv(1) == b""

    with linked(fault("nothing"), serve) as (client, _, subject):
        client.sendall(request())
        client.close()
        subject.result(PATIENCE_S)


def test_where_cancel_is_not_passed_on_the_subject_answers_to_its_end() -> None:
    has_left = threading.Event()
    rest = chunk(event_of(event("x"))) * 2000

    def serve(subject: Peer) -> None:
        read_request(subject)
        subject.send(STREAM + chunk(event_of(event("a"))))
        assert has_left.wait(PATIENCE_S)
        subject.send(rest + CLOSING_CHUNK)  # more than socket buffers hold: somebody reads it
        subject.close()

    with linked(fault("request-kept"), serve) as (client, _, subject):
        client.sendall(request(stream=True))
        received(client, len(STREAM))
        client.close()
        has_left.set()
        subject.result(PATIENCE_S)


def test_a_subject_that_closes_without_an_answer_closes_the_client() -> None:
    def serve(subject: Peer) -> None:
        read_request(subject)
        subject.close()

    with linked(fault("nothing"), serve) as (client, _, _subject):
        client.sendall(request())
        assert client.recv(1) == b""


def test_a_subject_that_closes_between_two_requests_closes_the_client() -> None:
    def serve(subject: Peer) -> None:
        read_request(subject)
        subject.send(whole({}))
        subject.close()

    with linked(fault("nothing"), serve) as (client, _, _subject):
        client.sendall(request())
        assert received(client, len(whole({}))) == whole({})
        assert client.recv(1) == b""


def test_counters_of_the_process_are_changed_where_their_path_is_asked() -> None:
    text = b"x:drafted_total 40\nx:accepted_total 9\n"
    metrics = {"path": "/metrics", "counters": {"drafted": "x:drafted_total", "accepted": "x:accepted_total"}}
    answers = [whole(openai()), b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text]
    one = fault("counts-set", values={"drafted": 8})
    with linked(one, answering(*answers), metrics) as (client, _, _subject):
        client.sendall(request())
        peer = Peer(client)
        head = peer.head()
        assert head is not None
        body = b"".join(content for _, content in peer.parts(body_of_request(head)))
        assert json.loads(body)["usage"]["spec"]["drafted"] == 8
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        head = peer.head()
        assert head is not None
        assert b"".join(content for _, content in peer.parts(body_of_request(head))) == text.replace(b"40", b"41")


def test_events_are_cut_at_their_blank_lines_and_read_as_json() -> None:
    events = Events()
    raw = event_of({"a": 1})
    assert events.take(raw[:5]) == []
    assert events.take(raw[5:] + b"data: [DO") == [raw]
    assert events.rest == b"data: [DO"
    assert read_event(raw) == {"a": 1}
    assert read_event(b"data: [DONE]\n\n") is None
    assert read_event(b": a comment\n\n") is None
