"""The dialects side by side: how a plan's request is sent, and what an answer's body or a stream's events say.

Plans and records speak one language; a subject's own begins and ends here. It knows no socket and no log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.records.plan import Request
from harness.records.recording import Chunk, Counts, Reply, Round
from harness.subjects import llama_reading, llama_request, reading
from harness.subjects.declarations import Dialect
from harness.subjects.description import Description


@dataclass(frozen=True, slots=True)
class Heard:
    """What one whole answer says."""

    reply: Reply
    counts: Counts | None = None  # first witness, where the body is the one
    usage_counts: Counts | None = None  # second witness
    rounds: tuple[Round, ...] | None = None


@dataclass(frozen=True, slots=True)
class HeardStream:
    """What the events of one whole stream say."""

    heard: Heard
    chunks: tuple[Chunk, ...]  # as they came, in the house's form
    is_closed: bool  # it ended with the dialect's closing event


def sent(request: Request, description: Description) -> Request:
    """Return the request as it goes over the wire. Raises UsageError for one that the dialect cannot say."""
    return llama_request.to_llama(request) if description.dialect.name is Dialect.LLAMA else request


def unsaid(request: Request, description: Description) -> tuple[str, ...]:
    """Return what a request asks that the dialect cannot say, in words; () where it can all be said."""
    return llama_request.untranslatable(request) if description.dialect.name is Dialect.LLAMA else ()


def chunk_of(event: Any, description: Description) -> Chunk:
    """Read one event of a stream. Raises BrokenBodyError."""
    if description.dialect.name is Dialect.LLAMA:
        return llama_reading.read_chunk(event)
    return reading.read_chunk(event, description.dialect)


def heard(body: Any, description: Description) -> Heard:
    """Read an unstreamed answer. Raises BrokenBodyError, CountsError."""
    if description.dialect.name is Dialect.LLAMA:
        return Heard(llama_reading.read_reply(body), counts=llama_reading.read_counts(body))
    return _with_usage(reading.read_reply(body, description.dialect), body, description)


def heard_stream(
    events: Sequence[Mapping[str, Any]], chunks: Sequence[Chunk], saw_done: bool, description: Description
) -> HeardStream:
    """Read a stream that came to its end. Raises BrokenBodyError, CountsError."""
    if description.dialect.name is Dialect.LLAMA:
        body = llama_reading.join_events(events)
        said = Heard(llama_reading.read_reply(body, is_streamed=True), counts=llama_reading.read_counts(body))
        return HeardStream(said, llama_reading.visible(chunks, said.reply), llama_reading.is_closing(events[-1]))
    usages = [event for event in events if event.get("usage") is not None]
    reply = reading.join_events(events, chunks, description.dialect)
    said = _with_usage(reply, usages[-1] if usages else None, description)
    return HeardStream(said, tuple(chunks), saw_done)


def _with_usage(reply: Reply, body: Any, description: Description) -> Heard:
    counts, rounds = reading.read_usage_counts(body, description.counts)
    return Heard(reply, usage_counts=counts, rounds=rounds)
