"""Asking over HTTP: deadlines that hold, clients that really leave, and servers that misbehave."""

import contextlib
import socket
import threading

import pytest

from harness.records.plan import Request
from harness.subjects.client import Lane

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


class Server:
    """Answers each request of each connection with the next script: bytes to send, then whether to hang up."""

    def __init__(self, *scripts: tuple[bytes, str]):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.scripts = list(scripts)
        self.heads: list[bytes] = []
        self.num_connections = 0
        self.left = threading.Event()  # the client's end was seen
        self.release = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while self.scripts:
                connection, _ = self.listener.accept()
                self.num_connections += 1
                with connection, contextlib.suppress(OSError):
                    self.talk(connection)

    def talk(self, connection: socket.socket) -> None:
        while self.scripts:
            request = self.read_request(connection)
            if not request:
                return
            self.heads.append(request)
            content, then = self.scripts.pop(0)
            connection.sendall(content)
            if then == "hold":
                self.release.wait()
            if then == "drip":
                while not self.release.wait(0.01):
                    connection.sendall(b" ")
            if then == "until-left":
                while connection.recv(1):
                    pass
                self.left.set()
            if then != "go on":
                return

    def read_request(self, connection: socket.socket) -> bytes:
        content = b""
        while b"\r\n\r\n" not in content:
            part = connection.recv(4096)
            if not part:
                return b""
            content += part
        head, _, body = content.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
        while len(body) < length:
            body += connection.recv(4096)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        self.scripts.clear()
        self.release.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


@contextlib.contextmanager
def serving(*scripts):
    server = Server(*scripts)
    lane = Lane(server.url)
    try:
        yield server, lane
    finally:
        lane.close()
        server.close()


def post(**fields) -> Request:
    return Request(id="r", checks=(), body={"prompt": "é"}, **fields)


def body(content: bytes, *, length: int | None = None) -> bytes:
    return HEAD + f"Content-Length: {len(content) if length is None else length}\r\n\r\n".encode() + content


def chunked(*parts: bytes, end: bool = True) -> bytes:
    content = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts)
    return STREAM + b"Transfer-Encoding: chunked\r\n\r\n" + content + (b"0\r\n\r\n" if end else b"")


def test_a_json_body_is_sent_as_utf_8_json_and_the_answer_is_taken_whole():
    with serving((body(b'{"a": 1}'), "end")) as (server, lane):
        exchange = lane.exchange(post(headers={"Host": "elsewhere", "X-Mark": "7"}), 5)
    assert (exchange.status, exchange.failure, exchange.body) == (200, "", b'{"a": 1}')
    head, _, sent = server.heads[0].partition(b"\r\n\r\n")
    assert sent == b'{"prompt": "\\u00e9"}'
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/completions HTTP/1.1"
    assert {"Host: elsewhere", "X-Mark: 7", "Content-Type: application/json", "Accept-Encoding: identity"} <= set(lines)


def test_a_raw_body_is_sent_byte_for_byte():
    with serving((body(b"{}"), "end")) as (server, lane):
        lane.exchange(Request(id="r", checks=(), raw='{"prompt": \xff'), 5)
    assert server.heads[0].endswith(b'\r\n\r\n{"prompt": \xff')


def test_a_get_carries_no_body():
    with serving((body(b"{}"), "end")) as (server, lane):
        lane.exchange(Request(id="r", checks=(), method="GET", path="/health"), 5)
    assert server.heads[0].startswith(b"GET /health HTTP/1.1\r\n")
    assert server.heads[0].endswith(b"\r\n\r\n")


def test_a_connection_is_kept_for_the_next_request_and_cookies_are_not():
    cookie = HEAD + b"Set-Cookie: seen=1\r\nContent-Length: 2\r\n\r\n{}"
    with serving((cookie, "go on"), (body(b"{}"), "end")) as (server, lane):
        assert [lane.exchange(post(), 5).status for _ in range(2)] == [200, 200]
    assert server.num_connections == 1
    assert b"Cookie" not in server.heads[1]


def test_a_redirect_is_an_answer_and_is_not_followed():
    with serving((b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", "end")) as (server, lane):
        assert lane.exchange(post(), 5).status == 302
    assert len(server.heads) == 1


def test_events_are_taken_until_the_stream_ends():
    parts = (b"data: 1\n\nda", b"ta: 2\n\n", b"data: [DONE]\n\n")
    with serving((chunked(*parts), "go on"), (body(b"{}"), "end")) as (server, lane):
        exchange = lane.exchange(post(), 5)
        assert lane.exchange(post(), 5).status == 200
    assert (exchange.status, exchange.failure, exchange.events, exchange.saw_done) == (200, "", [b"1", b"2"], True)
    assert server.num_connections == 1


def test_a_stream_that_ends_with_its_connection_is_taken_too():
    with serving((STREAM + b"\r\ndata: 1\n\n", "end")) as (_, lane):
        exchange = lane.exchange(post(), 5)
    assert (exchange.status, exchange.events, exchange.saw_done) == (200, [b"1"], False)


@pytest.mark.parametrize("framing", ["chunked", "until the connection closes"])
def test_a_client_that_leaves_after_two_chunks_is_seen_to_leave(framing):
    content = b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"
    sent = chunked(*content, end=False) if framing == "chunked" else STREAM + b"\r\n" + b"".join(content)
    with serving((sent, "until-left"), (body(b"{}"), "end")) as (server, lane):
        exchange = lane.exchange(post(leave_after_chunks=2), 5)
        assert (exchange.status, exchange.failure, exchange.events) == (None, "left", [b"1", b"2"])
        assert server.left.wait(5)
        assert lane.exchange(post(), 5).status == 200


@pytest.mark.parametrize(
    ("content", "then"),
    [
        (b"", "hold"),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", "drip"),
        (body(b"{", length=100_000), "drip"),
        (HEAD + b"\r\n{", "drip"),
        (chunked(b"data: 1\n\n", end=False), "hold"),
        (STREAM + b"\r\ndata: 1\n\n", "drip"),
    ],
)
def test_the_deadline_bounds_the_whole_answer_however_it_drips(content, then):
    with serving((content, then)) as (_, lane):
        exchange = lane.exchange(post(), 0.15)
    assert (exchange.status, exchange.failure) == (None, "deadline")
    assert 0.14 < exchange.seconds < 1


def test_a_deadline_that_is_over_asks_nothing_long():
    with serving((b"", "hold")) as (_, lane):
        assert lane.exchange(post(), -1).failure == "deadline"


@pytest.mark.parametrize(
    ("content", "failure"),
    [
        (b"", "reset"),
        (body(b"{", length=10), "reset"),
        (chunked(b"data: 1\n\n", end=False), "reset"),
        (chunked(b"data: 1\n\nda"), "broken: the stream ended inside an event"),
        (chunked(b"data: [DONE]\n\ndata: 1\n\n"), "broken: an event after [DONE]"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "broken: "),
        (HEAD + b"Content-Length: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "reset"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n", "broken: "),
    ],
)
def test_a_server_that_breaks_off_or_speaks_nonsense_is_a_failure(content, failure):
    with serving((content, "end")) as (_, lane):
        exchange = lane.exchange(post(), 5)
    assert exchange.status is None
    assert exchange.failure.startswith(failure)


def test_an_endless_body_is_cut_at_its_limit(monkeypatch):
    monkeypatch.setattr("harness.subjects.client.MAX_BODY_BYTES", 1 << 20)
    with serving((HEAD + b"\r\n" + b"x" * (3 << 20), "end")) as (_, lane):
        assert lane.exchange(post(), 5).failure == "broken: the body is over 1 MiB"
    with serving((STREAM + b"\r\n" + b"data: x\n\n" * (1 << 18), "end")) as (_, lane):
        assert lane.exchange(post(), 5).failure == "broken: the stream is over 1 MiB"


def test_nobody_listening_is_a_refused_connection():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    assert Lane(url).exchange(post(), 5).failure == "refused"


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving((body(b"{}"), "end")) as (_, lane):
        assert lane.exchange(post(), 5).status == 200
