"""Asks a subject over HTTP. What comes back is bytes, events, a status, or the reason why there is none; nothing raises.

It knows sockets, deadlines and leaving; it does not know what an answer means (reading.py) nor the subject's log.
"""

from __future__ import annotations

import functools
import json
import math
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError

from harness.records.plan import Request
from harness.subjects.sse import DONE, EventReader

READ_BYTES = 1 << 16
MAX_BODY_BYTES = 64 << 20
LEFT, DEADLINE, RESET, REFUSED = "left", "deadline", "reset", "refused"


@dataclass(slots=True)
class Exchange:
    """One request and what came back, as far as it came."""

    status: int | None = None  # None: no whole answer came
    failure: str = ""  # then why: deadline, left, reset, refused, broken: ...
    body: bytes = b""  # of an answer that is no stream
    is_stream: bool = False
    events: list[bytes] = field(default_factory=list)  # data of each event, the closing one aside
    saw_done: bool = False
    seconds: float = 0.0


class Lane:
    """One kept-alive connection to a subject; one request at a time. Cookies, proxies and redirects are off."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._adapter = _WatchedAdapter(pool_connections=1, pool_maxsize=1, max_retries=0)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
        self._session.mount("http://", self._adapter)
        self._watch = _Watch(self._adapter.cut)

    def exchange(self, request: Request, deadline_s: float) -> Exchange:
        """Send one request and take the answer. `deadline_s` bounds the whole of it, however slowly it drips."""
        began = time.monotonic()
        exchange = Exchange()
        self._watch.begin(began + deadline_s)
        try:
            exchange.status = self._send(request, deadline_s, exchange)
        except (requests.RequestException, HTTPError, HTTPException, OSError, ValueError) as error:
            exchange.failure = exchange.failure or _reason(error)
        has_expired = self._watch.end()
        if has_expired and exchange.failure != LEFT:
            exchange.failure = DEADLINE
        if exchange.failure:
            exchange.status = None
        exchange.seconds = time.monotonic() - began
        return exchange

    def renew(self) -> None:
        """Drop the connection: the next request gets a new one."""
        self._adapter.close()

    def close(self) -> None:
        """Close the connection."""
        self._watch.close()
        self._session.close()

    def _send(self, request: Request, deadline_s: float, exchange: Exchange) -> int:
        content = _content(request)
        headers = {"Accept-Encoding": "identity"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        with self._session.request(
            request.method,
            self._base_url + request.path,
            data=content,
            headers=headers | request.headers,
            timeout=max(deadline_s, 0.001),
            stream=True,
            allow_redirects=False,
        ) as response:
            exchange.is_stream = response.headers.get("Content-Type", "").startswith("text/event-stream")
            if exchange.is_stream:
                self._take_events(response.raw, request.leave_after_chunks, exchange)
            else:
                self._take_body(response.raw, exchange)
            return response.status_code

    def _take_body(self, raw: Any, exchange: Exchange) -> None:
        body = bytearray()
        while part := raw.read1(READ_BYTES):
            body += part
            if len(body) > MAX_BODY_BYTES:
                self._stop(exchange, f"broken: the body is over {MAX_BODY_BYTES >> 20} MiB")
                break
        exchange.body = bytes(body)

    def _take_events(self, raw: Any, leave_after: int | None, exchange: Exchange) -> None:
        reader = EventReader()
        num_bytes = 0
        if leave_after == 0:
            return self._stop(exchange, LEFT)
        while part := raw.read1(READ_BYTES):
            num_bytes += len(part)
            for event in reader.feed(part):
                if exchange.saw_done:
                    return self._stop(exchange, f"broken: an event after {DONE.decode()}: {event[:80]!r}")
                if event == DONE:
                    exchange.saw_done = True
                    continue
                exchange.events.append(event)
                if len(exchange.events) == leave_after:
                    return self._stop(exchange, LEFT)
            if num_bytes > MAX_BODY_BYTES:
                return self._stop(exchange, f"broken: the stream is over {MAX_BODY_BYTES >> 20} MiB")
        if reader.is_inside:
            exchange.failure = "broken: the stream ended inside an event"
        return None

    def _stop(self, exchange: Exchange, failure: str) -> None:
        """Close the connection for real, so that the other side sees it."""
        exchange.failure = failure
        self._adapter.cut()


class _Watch:
    """Cuts a connection when an answer takes too long. One thread serves all answers, and sleeps through those that come in time."""

    def __init__(self, cut: Callable[[], None]) -> None:
        self._cut = cut
        self._changed = threading.Condition()
        self._deadline = math.inf  # monotonic; infinite between two answers
        self._wakes_at = math.inf  # when the thread looks next
        self._has_expired = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def begin(self, deadline: float) -> None:
        """Cut the connection at `deadline`, unless the answer has ended by then."""
        with self._changed:
            self._deadline, self._has_expired = deadline, False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            elif deadline < self._wakes_at:
                self._changed.notify()

    def end(self) -> bool:
        """Say that the answer has ended; return whether its connection was cut before."""
        with self._changed:
            self._deadline = math.inf
            return self._has_expired

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._is_closed:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    self._deadline, self._has_expired = math.inf, True
                    self._cut()
                    continue
                self._wakes_at = self._deadline
                self._changed.wait(None if left == math.inf else min(left, threading.TIMEOUT_MAX))


class _WatchedConnection(HTTPConnection):
    """A connection that tells its adapter which socket it has."""

    def __init__(self, *args: Any, sockets: list[socket.socket], **options: Any) -> None:
        super().__init__(*args, **options)
        self._sockets = sockets

    def connect(self) -> None:
        super().connect()
        self._sockets[:] = [self.sock]


class _WatchedAdapter(HTTPAdapter):
    """An adapter whose connection can be cut from another thread."""

    def __init__(self, **options: Any) -> None:
        self._sockets: list[socket.socket] = []
        super().__init__(**options)

    def cut(self) -> None:
        """Shut the connection down at once: a blocked read returns, the other side sees the end."""
        for one in tuple(self._sockets):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:  # closed already
                continue

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        """Return the pool, with connections that can be cut."""
        pool: Any = super().get_connection_with_tls_context(*args, **options)
        pool.ConnectionCls = functools.partial(_WatchedConnection, sockets=self._sockets)
        return pool


def _content(request: Request) -> bytes | None:
    if request.raw is not None:
        return request.raw.encode("latin-1")
    return None if request.body is None else json.dumps(request.body).encode()


def _reason(error: BaseException) -> str:
    """Say why there is no answer, in one word where there is one."""
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseException) and one not in seen:
            seen.append(one)
            waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    for kinds, word in (
        ((ConnectionRefusedError,), REFUSED),
        ((requests.Timeout, TimeoutError), DEADLINE),
        ((ConnectionResetError, BrokenPipeError, RemoteDisconnected, IncompleteRead), RESET),
    ):
        if any(isinstance(one, kinds) for one in seen):
            return word
    return f"broken: {type(error).__name__}: {error}"[:300]
