"""The dialects side by side: how a plan's request is sent, and what an answer's body or a stream's events say.

Plans and records speak one language; a subject's own begins and ends here. It knows no socket and no log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec

from harness.records.plan import Request
from harness.records.recording import Chunk, Counts, Reply, Round
from harness.subjects import answer_counts, end_tokens, llama_reading, llama_request, reading, sglang_reading, sglang_request
from harness.subjects.declarations import Dialect, NoDraft
from harness.subjects.description import Description

MORE_TO_SAY = ("return_token_ids", "return_spec")  # fields that ask for nothing but more to be said


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


@dataclass(frozen=True, slots=True)
class _Tongue:
    """One dialect: requests into it, answers out of it."""

    sent: Callable[[Request], Request]
    unsaid: Callable[[Request], tuple[str, ...]]
    chunk_of: Callable[[Any, Description], Chunk]
    heard: Callable[[Any, Description], Heard]
    heard_stream: Callable[[Sequence[Mapping[str, Any]], Sequence[Chunk], bool, Description], HeardStream]


def sent(request: Request, description: Description) -> Request:
    """Return the request as it goes over the wire. Raises UsageError for one that the dialect cannot say."""
    speech = description.dialect
    request = _tongue(description).sent(request)
    if request.body is None or request.method != "POST" or not (speech.adds or speech.leaves_out):
        return request
    kept = {name: value for name, value in request.body.items() if name not in speech.leaves_out}
    return msgspec.structs.replace(request, body={**speech.adds, **kept})


def unsaid(request: Request, description: Description) -> tuple[str, ...]:
    """Return what a request asks that the dialect cannot say, in words; () where it can all be said."""
    body, speech = request.body or {}, description.dialect
    left_out = (name for name in speech.leaves_out if name not in MORE_TO_SAY and body.get(name) is not None)
    stops = body.get("stop")
    too_many = isinstance(stops, list) and 0 < speech.most_stops < len(stops)
    words = (f"more than {speech.most_stops} stop strings",) if too_many else ()
    if "messages" in body and not speech.chat:
        words = (*words, "a chat")
    return (*_tongue(description).unsaid(request), *(f"field {name}" for name in left_out), *words)


def chunk_of(event: Any, description: Description) -> Chunk:
    """Read one event of a stream. Raises BrokenBodyError."""
    return _tongue(description).chunk_of(event, description)


def heard(body: Any, description: Description) -> Heard:
    """Read an unstreamed answer. Raises BrokenBodyError, CountsError."""
    return _silenced(_tongue(description).heard(body, description), description)


def heard_stream(
    events: Sequence[Mapping[str, Any]], chunks: Sequence[Chunk], saw_done: bool, description: Description
) -> HeardStream:
    """Read a stream that came to its end. Raises BrokenBodyError, CountsError."""
    stream = _tongue(description).heard_stream(events, chunks, saw_done, description)
    return replace(stream, heard=_silenced(stream.heard, description))


def _tongue(description: Description) -> _Tongue:
    return _TONGUES[description.dialect.name]


def _silenced(said: Heard, description: Description) -> Heard:
    """Return what was heard without the fields that mean nothing."""
    return replace(said, reply=msgspec.structs.replace(said.reply, **dict.fromkeys(description.dialect.silent)))


def _may_lack(description: Description) -> bool:
    """Whether an answer without counts says that nothing was drafted."""
    return description.accounting.no_draft is NoDraft.ABSENT


def _openai(body: Any, description: Description) -> Heard:
    return _with_counts(reading.read_reply(body, description.dialect), body, description)


def _openai_stream(
    events: Sequence[Mapping[str, Any]], chunks: Sequence[Chunk], saw_done: bool, description: Description
) -> HeardStream:
    usages = [event for event in events if event.get("usage") is not None]
    reply = reading.join_events(events, chunks, description.dialect)
    said = _with_counts(reply, usages[-1] if usages else None, description)
    return HeardStream(said, end_tokens.visible(chunks, said.reply), saw_done)


def _with_counts(reply: Reply, body: Any, description: Description) -> Heard:
    """Return a reply with what the body, or the event with usage, says of its path; None for a stream without such an event."""
    if description.dialect.counts_end_token:
        reply = end_tokens.without(reply)
    usage_counts, rounds = reading.read_usage_counts(body, description.counts)
    fields = description.counts.fields
    if fields is None or body is None:
        return Heard(reply, usage_counts=usage_counts, rounds=rounds)
    counts = answer_counts.read(body, fields, reply, may_lack=_may_lack(description))
    rounds = rounds if rounds is not None else answer_counts.read_rounds(body, fields)
    return Heard(reply, counts=counts, usage_counts=usage_counts, rounds=rounds)


def _llama(body: Any, description: Description) -> Heard:
    return Heard(llama_reading.read_reply(body), counts=llama_reading.read_counts(body, may_lack=_may_lack(description)))


def _llama_stream(
    events: Sequence[Mapping[str, Any]], chunks: Sequence[Chunk], _saw_done: bool, description: Description
) -> HeardStream:
    body = llama_reading.join_events(events)
    counts = llama_reading.read_counts(body, may_lack=_may_lack(description))
    said = Heard(llama_reading.read_reply(body, is_streamed=True), counts=counts)
    return HeardStream(said, end_tokens.visible(chunks, said.reply), llama_reading.is_closing(events[-1]))


def _sglang(body: Any, description: Description) -> Heard:
    reply = sglang_reading.read_reply(body)
    return Heard(reply, counts=sglang_reading.read_counts(body, reply, may_lack=_may_lack(description)))


def _sglang_stream(
    events: Sequence[Mapping[str, Any]], chunks: Sequence[Chunk], saw_done: bool, description: Description
) -> HeardStream:
    said = _sglang(sglang_reading.join_events(events), description)
    return HeardStream(said, end_tokens.visible(chunks, said.reply), saw_done)


_TONGUES: Mapping[Dialect, _Tongue] = MappingProxyType(
    {
        Dialect.OPENAI: _Tongue(
            lambda request: request,
            lambda _request: (),
            lambda event, description: reading.read_chunk(event, description.dialect),
            _openai,
            _openai_stream,
        ),
        Dialect.LLAMA: _Tongue(
            llama_request.to_llama,
            llama_request.untranslatable,
            lambda event, _description: llama_reading.read_chunk(event),
            _llama,
            _llama_stream,
        ),
        Dialect.SGLANG: _Tongue(
            sglang_request.to_sglang,
            sglang_request.untranslatable,
            lambda event, _description: sglang_reading.read_chunk(event),
            _sglang,
            _sglang_stream,
        ),
    }
)
