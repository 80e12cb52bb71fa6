"""Bytes of HTTP, and a socket's manners."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from forward_serve.serving.wire import Wire, chunk_bytes, event_bytes, response_bytes, stream_head_bytes


@pytest.fixture
def pair() -> Iterator[tuple[Wire, socket.socket]]:
    """A wire of a TCP connection and its client's end."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        connection, _ = listener.accept()
        with connection:
            yield Wire(connection), client


def test_a_response_is_whole_and_closes_only_where_told() -> None:
    kept, closing = response_bytes(200, {"a": "é"}, closes=False), response_bytes(404, {}, closes=True, more={"Allow": "GET"})
    assert kept.startswith(b"HTTP/1.1 200 OK\r\n")
    assert kept.endswith(b'Content-Length: 10\r\n\r\n{"a":"\xc3\xa9"}')
    assert b"Connection" not in kept
    assert b"\r\nAllow: GET\r\nConnection: close\r\n" in closing


def test_chunks_and_events_are_framed() -> None:
    assert chunk_bytes(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
    assert chunk_bytes(b"") == b"0\r\n\r\n"
    assert event_bytes({"a": 1}) == b'data: {"a":1}\n\n'
    assert b"Connection: close" in stream_head_bytes(is_chunked=False)


def test_small_writes_do_not_wait_for_acknowledgements(pair: tuple[Wire, socket.socket]) -> None:
    wire, _ = pair
    assert wire._connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_a_client_that_is_silent_or_talks_on_has_not_left(pair: tuple[Wire, socket.socket]) -> None:
    wire, client = pair
    assert wire.has_left() is False
    client.sendall(b"GET")
    assert wire.has_left() is False
    assert wire._connection.recv(9) == b"GET"


def test_a_client_that_closed_has_left(pair: tuple[Wire, socket.socket]) -> None:
    wire, client = pair
    client.close()
    assert wire.has_left() is True


def test_a_client_that_reset_has_left(pair: tuple[Wire, socket.socket]) -> None:
    wire, client = pair
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    assert wire.has_left() is True


def test_lingering_lets_a_client_finish_its_body_and_read_its_answer(pair: tuple[Wire, socket.socket]) -> None:
    wire, client = pair
    wire.send(b"no")
    client.sendall(b"x" * 100_000)
    client.shutdown(socket.SHUT_WR)
    wire.linger()
    wire._connection.close()
    assert client.recv(9) == b"no"
    assert client.recv(9) == b""
