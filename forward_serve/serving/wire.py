"""HTTP/1.1 as bytes, and the socket that carries them. Every response and every event is one write. Knows no route.

One write, and TCP_NODELAY on the socket: a response in two small writes on a kept connection waits 40 ms for an acknowledgement.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

PATIENCE_S = 10  # a client that takes none of its stream for so long counts as gone
LINGER_S = 2  # how long an unread body is swallowed after its answer
LINGER_BYTES = 16 << 20
DONE = b"data: [DONE]\n\n"


def head_bytes(status: int, fields: Mapping[str, str]) -> bytes:
    """Return status line and header fields, with the empty line behind them."""
    now = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "Server: forward-serve", f"Date: {now}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def response_bytes(status: int, value: Any, *, closes: bool, more: Mapping[str, str] | None = None) -> bytes:
    """Return a whole JSON response."""
    content = json_bytes(value)
    fields = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(more or {})}
    if closes:
        fields["Connection"] = "close"
    return head_bytes(status, fields) + content


def stream_head_bytes(*, is_chunked: bool) -> bytes:
    """Return the head of a stream of server-sent events; without chunks (HTTP/1.0) the connection's end is the stream's."""
    framing = {"Transfer-Encoding": "chunked"} if is_chunked else {"Connection": "close"}
    return head_bytes(200, {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", **framing})


def event_bytes(value: Any) -> bytes:
    """Return one server-sent event."""
    return b"data: " + json_bytes(value) + b"\n\n"


def chunk_bytes(content: bytes) -> bytes:
    """Return one chunk of a chunked body; the empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(content), content)


def json_bytes(value: Any) -> bytes:
    """Return a value as compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class Wire:
    """One accepted connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", PATIENCE_S, 0))

    def send(self, content: bytes) -> None:
        """Send everything. Raises OSError when the client has left or takes nothing for PATIENCE_S."""
        self._connection.sendall(content)

    def has_left(self) -> bool:
        """Whether the client has closed its side; looks without waiting and takes nothing."""
        try:
            return not self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def linger(self) -> None:
        """Swallow what the client still sends of a body that nobody reads, within bounds.

        Closing over unread bytes resets the connection, and the client may lose the answer that says why.
        """
        deadline = time.monotonic() + LINGER_S
        num_left = LINGER_BYTES
        try:
            self._connection.shutdown(socket.SHUT_WR)
            while num_left > 0 and (patience := deadline - time.monotonic()) > 0:
                self._connection.settimeout(patience)
                received = len(self._connection.recv(1 << 16))
                if not received:
                    return
                num_left -= received
        except OSError:
            return
