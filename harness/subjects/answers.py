"""From one exchange to an Answer, but for the log line. Pure; a body that breaks its dialect becomes a failure text."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from harness.records.plan import Request
from harness.records.recording import Answer, Chunk
from harness.subjects import reading
from harness.subjects.client import Exchange
from harness.subjects.counts import CountsError
from harness.subjects.description import Description

OK = 200


def read_answer(request: Request, exchange: Exchange, description: Description) -> Answer:
    """Decode what came back. Never raises."""
    answer = Answer(
        request_id=request.id,
        status=exchange.status,
        failure=exchange.failure,
        saw_done=exchange.saw_done,
        seconds=exchange.seconds,
    )
    if exchange.is_stream:
        return _streamed(answer, exchange, description)
    if exchange.status is None or (request.method == "GET" and not exchange.body):
        return answer
    try:
        answer = replace(answer, body=reading.read_json(exchange.body))
        if exchange.status != OK or request.path not in (description.dialect.completions, description.dialect.chat):
            return answer
        answer = replace(answer, reply=reading.read_reply(answer.body, description.dialect))
    except reading.BrokenBodyError as error:
        return replace(answer, failure=str(error))
    return _with_usage_counts(answer, answer.body, description)


def identity_of(answer: Answer, exchange: Exchange) -> str:
    """Return the response id, also of an answer that broke off; "" where none came."""
    if answer.reply is not None:
        return answer.reply.response_id
    if not exchange.events:
        return reading.response_id(answer.body)
    try:
        return reading.response_id(reading.read_json(exchange.events[0]))
    except reading.BrokenBodyError:
        return ""


def _streamed(answer: Answer, exchange: Exchange, description: Description) -> Answer:
    """Decode the events; what came before a broken one is kept."""
    events: list[Any] = []
    chunks: list[Chunk] = []
    failure = answer.failure
    try:
        for content in exchange.events:
            event = reading.read_json(content)
            chunks.append(reading.read_chunk(event, description.dialect))
            events.append(event)
    except reading.BrokenBodyError as error:
        failure = failure or str(error)
    answer = replace(answer, chunks=tuple(chunks), failure=failure)
    if failure:
        return answer
    try:
        answer = replace(answer, reply=reading.join_events(events, chunks, description.dialect))
    except reading.BrokenBodyError as error:
        return replace(answer, failure=str(error))
    usages = [event for event in events if event.get("usage") is not None]
    return _with_usage_counts(answer, usages[-1] if usages else None, description)


def _with_usage_counts(answer: Answer, body: Any, description: Description) -> Answer:
    try:
        counts, rounds = reading.read_usage_counts(body, description.counts)
    except CountsError as error:
        return replace(answer, failure=str(error))
    return replace(answer, usage_counts=counts, rounds=rounds)
