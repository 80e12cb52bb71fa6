"""One client connection and the one to the subject that stands for it: each message byte for byte, but for what the fault changes.

An answer is passed on part by part as it comes; what the fault reads is passed on as it is where the fault leaves it alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.mutation.relay import wire
from harness.mutation.relay.fault import Asked, Fault
from harness.mutation.relay.wire import Body, Chunked, ClientLeftError, Head, Peer, WireError

END_OF_EVENT = b"\n\n"
OK = 200


@dataclass(frozen=True, slots=True)
class Between:
    """What all connections share."""

    fault: Fault
    connect: Callable[[], Peer]  # to the subject
    drain: Callable[[], None]  # passes on the subject's log so far
    number: Callable[[], int]  # of the next request that asks for a reply
    metrics: Any  # path and names of counters, or None


class Link:
    """Serves one client until either side closes."""

    def __init__(self, client: Peer, between: Between) -> None:
        self._client = client
        self._between = between
        self._fault = between.fault
        self._subject: Peer | None = None
        self._shown = ""  # of the stream that is under way

    def serve(self) -> None:
        """Pass messages to and fro; close both sides at the end, whatever happens."""
        try:
            while wire.next_to_act(self._client, self._subject):
                head = self._client.head()
                if head is None or not self._exchange(head):
                    return
        except (WireError, OSError):  # a side broke off: the other sees it close
            return
        finally:
            self._client.close()
            if self._subject is not None:
                self._subject.close()

    def _exchange(self, head: Head) -> bool:
        """Pass on one request and its answer; False where the connection is over."""
        pieces = list(self._client.parts(wire.body_of_request(head)))
        raw, content = b"".join(piece for piece, _ in pieces), b"".join(content for _, content in pieces)
        words = head.first
        path = words[1].partition("?")[0] if len(words) > 1 else ""
        asked = self._asked(path, content) if words[0] == "POST" and self._fault.speech.generates(path) else None
        changed = self._fault.request(asked) if asked is not None else None
        if changed is not None:
            raw = json.dumps(changed).encode()
            head = head.with_length(len(raw))
        if self._subject is None:
            self._subject = self._between.connect()
        self._subject.send(head.raw + raw)
        self._shown = ""
        try:
            is_open = self._answer(self._subject, path, asked)
        except (ClientLeftError, BrokenPipeError, ConnectionResetError):
            if asked is not None:
                self._fault.left(asked, self._shown)
            if not self._fault.passes_cancel:
                self._run_out(self._subject)
            return False
        return is_open

    def _asked(self, path: str, content: bytes) -> Asked:
        body = read_json(content)
        return Asked(self._between.number(), body if isinstance(body, dict) else {})

    def _answer(self, subject: Peer, path: str, asked: Asked | None) -> bool:
        """Pass on one answer; False where the connection is over."""
        head = subject.head(self._client)
        while head is not None and 100 <= head.status < 200:
            self._send(head.raw)
            head = subject.head(self._client)
        if head is None:
            return False
        body = wire.body_of_answer(head)
        parts = subject.parts(body, self._client)
        if asked is not None and head.is_stream and self._fault.reads_streams:
            self._stream(head, body, parts, asked)
        elif asked is not None and not head.is_stream and self._fault.reads_answers:
            self._whole(head, parts, lambda content: self._changed(asked, head.status, content))
        elif self._between.metrics is not None and path == self._between.metrics["path"] and head.status == OK:
            self._whole(head, parts, self._metrics)
        else:
            self._plain(head, parts, asked)
        is_kept = head.headers.get("connection", "keep-alive").lower() != "close"
        return is_kept and not isinstance(body, wire.UntilClose)

    def _plain(self, head: Head, parts: Iterator[tuple[bytes, bytes]], asked: Asked | None) -> None:
        self._send(head.raw)
        events = Events() if asked is not None and head.is_stream else None
        for raw, content in parts:
            self._send(raw)
            for event in events.take(content) if events else ():
                self._note(read_event(event))

    def _whole(
        self, head: Head, parts: Iterator[tuple[bytes, bytes]], change: Callable[[bytes], tuple[int, bytes] | None]
    ) -> None:
        pieces = list(parts)
        changed = change(b"".join(content for _, content in pieces))
        if changed is None:
            self._send(head.raw + b"".join(raw for raw, _ in pieces))
        else:
            status, content = changed
            self._send(head.with_length(len(content), status).raw + content)

    def _changed(self, asked: Asked, status: int, content: bytes) -> tuple[int, bytes] | None:
        body = read_json(content)
        changed = self._fault.answer(asked, status, body) if isinstance(body, dict) else None
        return None if changed is None else (changed[0], json.dumps(changed[1]).encode())

    def _metrics(self, content: bytes) -> tuple[int, bytes] | None:
        changed = changed_metrics(content.decode("utf-8", "replace"), self._between.metrics["counters"], self._fault)
        return None if changed is None else (OK, changed.encode())

    def _stream(self, head: Head, body: Body, parts: Iterator[tuple[bytes, bytes]], asked: Asked) -> None:
        """Pass on events one by one as they come; what follows the last whole one too."""
        wrap = wire.chunk if isinstance(body, Chunked) else bytes
        self._send(head.raw)
        events = Events()
        for _, content in parts:
            for raw in events.take(content):
                self._send_event(raw, asked, wrap)
        late = b"".join(map(event_of, self._fault.close(asked))) + events.rest
        if late:
            self._send(wrap(late))
        if isinstance(body, Chunked):
            self._send(wire.CLOSING_CHUNK)

    def _send_event(self, raw: bytes, asked: Asked, wrap: Callable[[bytes], bytes]) -> None:
        event = read_event(raw)
        if event is None:  # no JSON: the closing event of the dialect
            late = b"".join(map(event_of, self._fault.close(asked)))
            self._send(wrap(late + raw))
            return
        changed = self._fault.event(asked, event)
        sent = raw if changed is None else b"".join(map(event_of, changed))
        if sent:
            self._send(wrap(sent))
        self._note(event)

    def _note(self, event: Any) -> None:
        if event is not None:
            self._shown += self._fault.speech.delta(event) or ""

    def _send(self, content: bytes) -> None:
        self._between.drain()  # what the subject wrote before comes before
        self._client.send(content)

    def _run_out(self, subject: Peer) -> None:
        """Read an answer that nobody waits for to its end, so that the subject never learns it."""
        while subject.socket.recv(wire.READ_BYTES):
            continue


class Events:
    """Cuts a stream's content into its events, each with its blank line."""

    def __init__(self) -> None:
        self.rest = b""

    def take(self, content: bytes) -> list[bytes]:
        """Return the events that `content` completes."""
        *whole, self.rest = (self.rest + content).split(END_OF_EVENT)
        return [one + END_OF_EVENT for one in whole]


def read_event(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object of an event; None for any other."""
    lines = [line.removeprefix(b"data:").strip() for line in raw.split(b"\n") if line.startswith(b"data:")]
    event = read_json(b"\n".join(lines))
    return event if isinstance(event, dict) else None


def event_of(event: dict[str, Any]) -> bytes:
    """Return an event's bytes."""
    return b"data: " + json.dumps(event).encode() + END_OF_EVENT


def read_json(content: bytes) -> Any:
    """Return JSON as a value; None for what is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def changed_metrics(text: str, counters: dict[str, str], fault: Fault) -> str | None:
    """Return Prometheus text with the counters (name -> sample) as a fault has them; None where it leaves them alone."""
    lines = text.split("\n")
    places = {name: index for name, sample in counters.items() for index, line in enumerate(lines) if _is_of(line, sample)}
    totals = {name: int(float(lines[index].rpartition(" ")[2])) for name, index in places.items()}
    changed = fault.metrics(totals)
    if changed == totals:
        return None
    for name, index in places.items():
        lines[index] = f"{lines[index].rpartition(' ')[0]} {changed[name]}"
    return "\n".join(lines)


def _is_of(line: str, sample: str) -> bool:
    return line.startswith((f"{sample} ", f"{sample}{{"))
