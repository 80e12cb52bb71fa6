"""From one exchange to an Answer, but for log lines and metrics. Pure; a body that breaks its dialect becomes a failure text."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from harness.records.plan import Request
from harness.records.recording import Answer, Chunk
from harness.subjects import reading
from harness.subjects.client import Exchange
from harness.subjects.counts import CountsError
from harness.subjects.description import Description
from harness.subjects.dialects import Heard, chunk_of, heard, heard_stream

OK = 200


def read_answer(request: Request, exchange: Exchange, description: Description) -> Answer:
    """Decode what came back for a request as the plan has it. Never raises."""
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
        return _with(answer, heard(answer.body, description))
    except (reading.BrokenBodyError, CountsError) as error:
        return replace(answer, failure=str(error))


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
            chunks.append(chunk_of(event, description))
            events.append(event)
    except reading.BrokenBodyError as error:
        failure = failure or str(error)
    answer = replace(answer, chunks=tuple(chunks), failure=failure)
    if failure:
        return answer
    try:
        stream = heard_stream(events, chunks, exchange.saw_done, description)
    except (reading.BrokenBodyError, CountsError) as error:
        return replace(answer, failure=str(error))
    return replace(_with(answer, stream.heard), chunks=stream.chunks, saw_done=stream.is_closed)


def _with(answer: Answer, said: Heard) -> Answer:
    return replace(answer, reply=said.reply, counts=said.counts, usage_counts=said.usage_counts, rounds=said.rounds)
