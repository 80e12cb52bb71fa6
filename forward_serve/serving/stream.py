"""A reply as a stream of server-sent events. Nothing is sent before the first token, so that a failure can still be a 500."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forward_serve.serving.deliver import Part
from forward_serve.serving.dialect import SERVER_ERROR, Envelope, Said, error_body
from forward_serve.serving.wire import DONE, chunk_bytes, event_bytes, stream_head_bytes


class EventStream:
    """The events of one reply. `send` takes bytes and raises OSError when the client does not."""

    def __init__(self, envelope: Envelope, send: Callable[[bytes], None], *, is_chunked: bool) -> None:
        self._envelope = envelope
        self._send = send
        self._is_chunked = is_chunked
        request = envelope.request
        self._shows_tokens = request.output.return_token_ids or request.num_logprobs is not None
        self._has_spoken = False
        self.has_begun = False  # whether anything was sent

    def hear(self, part: Part) -> None:
        """Send a chunk for a token, unless it has nothing to show yet. Raises OSError when the client does not take it."""
        if part.text or (part.ids and self._shows_tokens):
            self._write(self._chunk(Said(part)))

    def close(self, said: Said, usage: dict[str, Any] | None) -> None:
        """Send the last chunk, with the finish reason; the usage where it is wanted; and the closing event."""
        events = self._chunk(said)
        if usage is not None:
            events += event_bytes(self._envelope.usage_chunk(usage))
        self._write(events + DONE, is_last=True)

    def break_off(self, message: str) -> None:
        """Send an error as the last event; a stream that failed has no closing event."""
        self._write(event_bytes(error_body(message, SERVER_ERROR)), is_last=True)

    def _chunk(self, said: Said) -> bytes:
        opening = b""
        if not self._has_spoken and (first := self._envelope.opening()) is not None:
            opening = event_bytes(first)
        events = opening + event_bytes(self._envelope.chunk(said, is_first=not self._has_spoken))
        self._has_spoken = True
        return events

    def _write(self, events: bytes, *, is_last: bool = False) -> None:
        head = b"" if self.has_begun else stream_head_bytes(is_chunked=self._is_chunked)
        self.has_begun = True
        if self._is_chunked:
            events = chunk_bytes(events) + (chunk_bytes(b"") if is_last else b"")
        self._send(head + events)
