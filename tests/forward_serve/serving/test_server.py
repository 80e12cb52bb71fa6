"""The server over real sockets, with a base without weights: routes, refusals, streams, cancellation, ending."""

from __future__ import annotations

import http.client
import json
import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from forward_serve.errors import Refusal
from forward_serve.serving import server as server_module
from forward_serve.serving import wire as wire_module
from forward_serve.serving.app import App
from forward_serve.serving.fault import PassFault
from forward_serve.serving.handler import MAX_BODY_BYTES
from forward_serve.serving.server import Server, listening_socket
from tests.forward_serve.serving.test_turnstile import wait_until
from tests.forward_serve.serving.toy import Log, ToyBase, app, lookup, served

COMPLETIONS, CHATS = "/v1/completions", "/v1/chat/completions"
GREEDY = {"prompt": "xyz", "temperature": 0, "max_tokens": 8}


@dataclass
class Running:
    """A server on a free port."""

    server: Server
    app: App
    log: Log

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)

    def ask(self, path: str, body: Any = None, method: str = "", headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """One request on a connection of its own: status and JSON."""
        connection = self.connect()
        raw = body if isinstance(body, bytes | None) else json.dumps(body)
        connection.request(method or ("GET" if raw is None else "POST"), path, raw, headers or {})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, json.loads(content) if content else None

    def talk(self, raw: bytes, *, leaves: bool = False) -> bytes:
        """Send bytes, close our side where told, and read to the end."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as client:
            client.sendall(raw)
            if leaves:
                client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b""))

    def line_of(self, response_id: str) -> str:
        wait_until(lambda: any(f"id={response_id} " in line for line in self.log.lines))
        return next(line for line in self.log.lines if f"[spec] id={response_id} " in line)


@contextmanager
def running(base: ToyBase | None = None, *, drafts: bool = True, serves_any_host: bool = False) -> Iterator[Running]:
    log = Log()
    ready = app(served(base, head=lookup() if drafts else None), log)
    with serving(ready, serves_any_host=serves_any_host) as server:
        yield Running(server, ready, log)


@contextmanager
def serving(ready: App, *, serves_any_host: bool = False) -> Iterator[Server]:
    server = Server(listening_socket("127.0.0.1", 0, {}), ready, serves_any_host=serves_any_host)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(10)
        assert not thread.is_alive()


def events_of(content: bytes) -> list[Any]:
    lines = [line[6:] for line in content.split(b"\n") if line.startswith(b"data: ")]
    return [line.decode() if line == b"[DONE]" else json.loads(line) for line in lines]


def test_health_models_and_a_completion() -> None:
    with running() as it:
        assert it.ask("/health") == (200, {"status": "ok"})
        assert it.ask("/v1/health") == (200, {"status": "ok"})
        assert it.ask("/v1/models")[1]["data"][0]["id"] == "toy"
        status, body = it.ask(COMPLETIONS, {**GREEDY, "return_token_ids": True, "return_spec": True})
    assert status == 200
    assert body["choices"][0]["text"] == "abcababc"
    assert body["choices"][0]["token_ids"] == list(b"abcababc")
    assert body["choices"][0]["prompt_token_ids"] == list(b"xyz")
    assert body["usage"]["spec"]["tokens"] == body["usage"]["completion_tokens"] == 8
    assert it.line_of(body["id"]).startswith("[spec] id=cmpl-1 path=spec drafter=lookup ")


def test_a_stream_equals_the_unstreamed_reply() -> None:
    asked = {**GREEDY, "return_token_ids": True, "stop": ["bc"], "max_tokens": 30}
    with running() as it:
        whole = it.ask(COMPLETIONS, asked)[1]
        connection = it.connect()
        connection.request("POST", COMPLETIONS, json.dumps({**asked, "stream": True, "stream_options": {"include_usage": True}}))
        response = connection.getresponse()
        *chunks, usage, done = events_of(response.read())
        connection.close()
    choices = [chunk["choices"][0] for chunk in chunks]
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert "".join(choice["text"] for choice in choices) == whole["choices"][0]["text"] == "a"
    assert [id_ for choice in choices for id_ in choice["token_ids"]] == whole["choices"][0]["token_ids"] == list(b"abc")
    assert [choice["finish_reason"] for choice in choices][-1] == whole["choices"][0]["finish_reason"] == "stop"
    assert choices[-1]["stop_reason"] == "bc"
    assert (usage["usage"], usage["choices"], done) == (whole["usage"], [], "[DONE]")


def test_a_stream_that_wants_its_spec_gets_the_usage_chunk_that_holds_it() -> None:
    with running() as it:
        content = it.talk(http_post(COMPLETIONS, {**GREEDY, "stream": True, "return_spec": True}))
    assert events_of(content)[-2]["usage"]["spec"]["drafter"] == "lookup"


def test_a_chat_is_answered_and_may_fill_the_context() -> None:
    with running() as it:
        status, body = it.ask(CHATS, {"messages": [{"role": "user", "content": "hi"}], "temperature": 0})
    assert (status, body["id"], body["object"]) == (200, "chatcmpl-1", "chat.completion")
    assert body["usage"]["total_tokens"] == 64
    assert body["choices"][0]["message"]["content"].startswith("abcab")


def http_post(path: str, body: Any, version: str = "1.1", host: str = "localhost") -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"POST {path} HTTP/{version}\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw


@pytest.mark.parametrize(
    ("path", "method", "body", "status", "said"),
    [
        ("/v1/embeddings", "POST", b"{}", 404, "/v1/embeddings is not served"),
        ("/", "GET", None, 404, "/ is not served"),
        (COMPLETIONS, "GET", None, 405, "use POST"),
        ("/health", "POST", b"{}", 405, "use GET"),
        ("/v1/models", "DELETE", None, 405, "use GET"),
        (COMPLETIONS, "PUT", b"{}", 405, "use POST"),
        ("/health", "BREW", None, 501, "BREW"),
        (COMPLETIONS, "POST", b"", 400, "not JSON"),
        (COMPLETIONS, "POST", b"{}", 400, "prompt: missing"),
        (COMPLETIONS, "POST", b'{"prompt": "a", "frob": 1}', 400, "frob: unknown field"),
        (COMPLETIONS, "POST", b'{"prompt": "a", "logprobs": 21}', 400, "logprobs: 21 is not"),
        (COMPLETIONS, "POST", b'{"prompt": "a", "structured_outputs": {"regex": "("}}', 400, "regex: not a regular expression"),
        (COMPLETIONS, "POST", b'{"prompt": "a", "model": "b"}', 404, "model: "),
        (COMPLETIONS, "POST", b" " * (MAX_BODY_BYTES + 1), 413, "over the limit of 1048576"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_bad_request_is_refused_and_the_next_one_is_served(
    path: str, method: str, body: bytes | None, status: int, said: str
) -> None:
    with running() as it:
        got, answer = it.ask(path, body, method)
        assert got == status
        assert said in answer["error"]["message"]
        assert set(answer["error"]) == {"message", "type", "param"}
        assert it.log.lines == []
        assert it.ask(COMPLETIONS, GREEDY)[1]["id"] == "cmpl-1"


def test_a_body_of_exactly_the_limit_is_read() -> None:
    raw = json.dumps(GREEDY).encode()
    with running() as it:
        assert it.ask(COMPLETIONS, raw + b" " * (MAX_BODY_BYTES - len(raw)))[0] == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Host: localhost\r\n", b"411"),
        (b"Host: localhost\r\nTransfer-Encoding: chunked\r\n", b"411"),
        (b"Host: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n", b"411"),
        (b"Host: localhost\r\nContent-Length: -1\r\n", b"400"),
        (b"Host: localhost\r\nContent-Length: 2\r\nContent-Length: 2\r\n", b"400"),
        (b"Host: example.org\r\nContent-Length: 2\r\n", b"403"),
        (b"Content-Length: 2\r\n", b"403"),
    ],
)
def test_a_bad_head_is_refused_by_its_status(head: bytes, status: bytes) -> None:
    with running() as it:
        answer = it.talk(b"POST /v1/completions HTTP/1.1\r\nConnection: close\r\n" + head + b"\r\n{}")
    assert answer.split(b" ", 2)[1] == status
    assert b'{"error":{"message":' in answer


def test_a_client_may_send_all_of_a_body_that_is_refused_unread() -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
    with running() as it, socket.create_connection(("127.0.0.1", it.server.port), timeout=10) as client:
        client.sendall(head)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
        client.sendall(b"x" * 4_000_000)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_what_is_not_http_is_refused_in_json() -> None:
    with running() as it:
        answer = it.talk(b"hello there world again\r\n\r\n")
    assert b'"type":"invalid_request_error"' in answer


def test_half_a_body_gets_no_answer_and_harms_nobody() -> None:
    with running() as it:
        assert it.talk(http_post(COMPLETIONS, GREEDY)[:-3], leaves=True) == b""
        assert it.ask("/health")[0] == 200


def test_a_head_request_is_refused_without_a_body() -> None:
    with running() as it:
        answer = it.talk(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nAllow: GET\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


def test_a_foreign_host_is_served_where_the_server_was_told_so() -> None:
    with running(serves_any_host=True) as it:
        assert b"200 OK" in it.talk(http_post(COMPLETIONS, GREEDY, host="example.org"))


def test_a_kept_connection_answers_each_request_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    send = wire_module.Wire.send

    def note(self: wire_module.Wire, content: bytes) -> None:
        writes.append(content)
        send(self, content)

    monkeypatch.setattr(wire_module.Wire, "send", note)
    with running() as it:
        connection = it.connect()
        for _ in range(3):
            connection.request("POST", COMPLETIONS, json.dumps(GREEDY))
            assert connection.getresponse().read()
        local = connection.sock.getsockname()
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        assert connection.sock.getsockname() == local
        connection.close()
    assert len(writes) == 4
    assert all(write.startswith(b"HTTP/1.1 200 OK\r\n") and write.endswith(b"}") for write in writes)


def test_an_http_1_0_stream_ends_with_its_connection() -> None:
    with running() as it:
        answer = it.talk(http_post(COMPLETIONS, {**GREEDY, "stream": True}, version="1.0"))
    head, _, content = answer.partition(b"\r\n\r\n")
    assert b"Connection: close" in head
    assert b"Transfer-Encoding" not in head
    assert content.startswith(b"data: {")
    assert content.endswith(b"data: [DONE]\n\n")


def test_a_failed_pass_is_a_500_and_the_engine_lives_on() -> None:
    fault = PassFault(3)
    with running(ToyBase(before_pass=lambda _: fault())) as it:
        status, body = it.ask(COMPLETIONS, GREEDY)
        assert status == 500
        assert "--fail-pass=3" in body["error"]["message"]
        assert it.line_of("cmpl-1").endswith("reason=failed")
        assert it.ask(COMPLETIONS, GREEDY)[1]["choices"][0]["text"] == "abcababc"


def test_a_pass_that_fails_inside_a_stream_ends_it_with_an_error() -> None:
    fault = PassFault(3)
    with running(ToyBase(before_pass=lambda _: fault())) as it:
        events = events_of(it.talk(http_post(COMPLETIONS, {**GREEDY, "stream": True})))
    assert "--fail-pass=3" in events[-1]["error"]["message"]
    assert "".join(event["choices"][0]["text"] for event in events[:-1]) == "ab"


def test_a_fault_of_the_server_is_a_500_with_an_error_line() -> None:
    def broken(_path: str) -> None:
        raise ZeroDivisionError("by zero")

    with running() as it:
        it.app.models = broken  # type: ignore[assignment, method-assign]
        status, body = it.ask("/v1/models")
    assert (status, body["error"]["type"]) == (500, "server_error")
    assert it.log.lines[0].startswith("[error] GET /v1/models TypeError")


class BlockingBase:
    """Holds a pass until the test writes a byte, and says when it has come there."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._read_end, self._write_end = os.pipe()
        self.is_inside = threading.Event()

    def before_pass(self, number: int) -> None:
        if number == self._number:
            self.is_inside.set()
            assert select.select([self._read_end], [], [], 10)[0], "nobody let the pass go on"
            os.read(self._read_end, 1)

    def let_go(self) -> None:
        os.write(self._write_end, b"!")

    def close(self) -> None:
        os.close(self._read_end)
        os.close(self._write_end)


@pytest.fixture
def blocking() -> Iterator[BlockingBase]:
    """A pass hook that blocks in the third pass, the second after the prompt's."""
    base = BlockingBase(3)
    yield base
    base.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_inside_a_pass_ends_its_request_at_the_very_next_token(blocking: BlockingBase, stream: bool) -> None:
    with running(ToyBase(before_pass=blocking.before_pass), drafts=False) as it:
        client = it.connect()
        client.request("POST", COMPLETIONS, json.dumps({**GREEDY, "max_tokens": 50, "stream": stream}))
        assert blocking.is_inside.wait(10)
        client.close()
        blocking.let_go()
        assert " plain=2 tokens=2 " in it.line_of("cmpl-1")
        assert it.line_of("cmpl-1").endswith("reason=cancelled")
        assert it.ask(COMPLETIONS, GREEDY)[1]["choices"][0]["text"] == "abcababc"


def test_a_client_that_leaves_the_queue_never_takes_the_engine(blocking: BlockingBase) -> None:
    with running(ToyBase(before_pass=blocking.before_pass)) as it:
        first, second = it.connect(), it.connect()
        first.request("POST", COMPLETIONS, json.dumps(GREEDY))
        assert blocking.is_inside.wait(10)
        second.request("POST", COMPLETIONS, json.dumps(GREEDY))
        wait_until(lambda: it.app.engine.num_waiting == 1)
        second.close()
        blocking.let_go()
        assert first.getresponse().status == 200
        first.close()
        assert it.ask(COMPLETIONS, GREEDY)[1]["id"] == "cmpl-3"
    assert [line.split()[1] for line in it.log.lines] == ["id=cmpl-1", "id=cmpl-3"]


def test_a_server_that_ends_breaks_off_what_runs_and_what_waits(blocking: BlockingBase) -> None:
    with running(ToyBase(before_pass=blocking.before_pass)) as it:
        port = it.server.port
        first, second = it.connect(), it.connect()
        first.request("POST", COMPLETIONS, json.dumps({**GREEDY, "max_tokens": 50}))
        assert blocking.is_inside.wait(10)
        second.request("POST", COMPLETIONS, json.dumps(GREEDY))
        wait_until(lambda: it.app.engine.num_waiting == 1)
        it.server.stop()
        wait_until(it.app.is_ending)
        blocking.let_go()
        assert [first.getresponse().status, second.getresponse().status] == [500, 503]
        first.close()
        second.close()
    assert [line.rsplit(" ", 1)[1] for line in it.log.lines if "[spec]" in line] == ["reason=failed"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_while_it_loads_everything_is_503() -> None:
    log = Log()
    loading = App(log)
    with serving(loading) as server:
        it = Running(server, loading, log)
        assert it.ask("/health") == (503, {"status": "loading"})
        for path, body in (("/v1/models", None), (COMPLETIONS, GREEDY), (CHATS, {})):
            status, answer = it.ask(path, body)
            assert (status, answer["error"]["type"]) == (503, "server_error")


def test_a_port_in_use_is_refused() -> None:
    with running() as it, pytest.raises(Refusal, match=r"--host=127\.0\.0\.1 -p [0-9]+: Address already in use; give"):
        listening_socket("127.0.0.1", it.server.port, {})


def test_an_address_of_no_machine_is_refused() -> None:
    with pytest.raises(Refusal, match=r"--host=203\.0\.113\.9 .*; give"):
        listening_socket("203.0.113.9", 0, {})


@pytest.mark.parametrize("environment", [{"LISTEN_FDS": "1"}, {"LISTEN_FDS": "1", "LISTEN_PID": "1"}])
def test_a_socket_that_is_handed_to_another_process_is_left_alone(environment: dict[str, str]) -> None:
    with listening_socket("127.0.0.1", 0, environment) as listener:
        assert listener.getsockname()[1] > 0


@contextmanager
def handed_over(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    monkeypatch.setattr(server_module, "HANDED_OVER_FD", descriptor)
    yield {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}


def test_a_socket_that_is_handed_over_is_served_and_port_and_host_mean_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as owned:
        port = owned.getsockname()[1]
        with handed_over(os.dup(owned.fileno()), monkeypatch) as environment:
            taken = listening_socket("203.0.113.9", 1, environment)
        with taken:
            assert (taken.getsockname()[1], taken.get_inheritable()) == (port, False)


@pytest.mark.parametrize("kind", ["closed", "not listening", "no TCP", "two"])
def test_a_bad_hand_over_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX if kind == "no TCP" else socket.AF_INET) as silent:
        descriptor = 1_000_000 if kind == "closed" else os.dup(silent.fileno())
        with handed_over(descriptor, monkeypatch) as environment:
            environment["LISTEN_FDS"] = "2" if kind == "two" else "1"
            with pytest.raises(Refusal, match="LISTEN_FDS="):
                listening_socket("127.0.0.1", 0, environment)


def test_the_first_stop_decides_the_exit_status() -> None:
    server = Server(listening_socket("127.0.0.1", 0, {}), App(Log()), serves_any_host=False)
    server.stop(2)
    server.stop(0)
    assert server.run() == 2
