"""From a body or a stream's events to Reply, Chunk, Counts and Round, in the OpenAI dialect with vLLM's additions. Pure.

Whatever breaks the dialect is a BrokenBodyError; the caller makes it the answer's failure. It judges no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harness.records.recording import Chunk, Counts, Reply, Round
from harness.subjects.counts import parse_usage
from harness.subjects.tables import CountsSource, Speech


class BrokenBodyError(ValueError):
    """A body that does not speak its dialect; the text says where."""


def read_json(content: bytes) -> Any:
    """Decode JSON. Raises BrokenBodyError, also for what no recording could hold."""
    try:
        value = msgspec.json.decode(content)
        msgspec.json.encode(value)
    except (ValueError, RecursionError, OverflowError) as error:
        raise BrokenBodyError(f"body is not JSON: {error}; it begins with {content[:80]!r}") from error
    return value


def read_reply(body: Any, speech: Speech) -> Reply:
    """Return the generated choice of an unstreamed answer. Raises BrokenBodyError."""
    choice = _only_choice(body)
    message = choice.get("message")
    text = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    return _reply(
        body,
        text=_text(text, "choices[0] text"),
        ids=_ids(choice, speech),
        finish_reason=_optional_text(choice, "finish_reason"),
        stop_reason=_stop_reason(choice, speech),
        logprobs=choice.get("logprobs"),
        usage=_usage(body),
        speech=speech,
    )


def read_chunk(event: Any, speech: Speech) -> Chunk:
    """Return one event of a stream. Raises BrokenBodyError."""
    choice = _choice_of_event(event)
    has_usage = _usage(event) is not None
    if choice is None:
        return Chunk(text="", has_usage=has_usage)
    return Chunk(
        text=_chunk_text(choice),
        ids=_ids(choice, speech) or (),
        finish_reason=_optional_text(choice, "finish_reason"),
        has_usage=has_usage,
    )


def join_events(events: Sequence[Any], chunks: Sequence[Chunk], speech: Speech) -> Reply:
    """Return the reply that a stream adds up to. Raises BrokenBodyError."""
    if not events:
        raise BrokenBodyError("stream: carried no event")
    ids_of_events = {repr(event.get("id")) for event in events}  # repr: a broken one may be a list
    if len(ids_of_events) != 1:
        raise BrokenBodyError(f"stream: events of several ids {', '.join(sorted(ids_of_events))}")
    choices = [choice for event in events if (choice := _choice_of_event(event)) is not None]
    finishes = [chunk.finish_reason for chunk in chunks if chunk.finish_reason is not None]
    stops = [stop for choice in choices if (stop := _stop_reason(choice, speech)) is not None]
    usages = [usage for event in events if (usage := _usage(event)) is not None]
    returns_ids = any(choice.get(speech.ids_field) is not None for choice in choices)
    return _reply(
        events[0],
        text="".join(chunk.text for chunk in chunks),
        ids=tuple(token for chunk in chunks for token in chunk.ids) if returns_ids else None,
        finish_reason=finishes[-1] if finishes else None,
        stop_reason=stops[-1] if stops else None,
        logprobs=_join_logprobs([choice.get("logprobs") for choice in choices]),
        usage=usages[-1] if usages else None,
        speech=speech,
    )


def read_usage_counts(body: Any, source: CountsSource) -> tuple[Counts | None, tuple[Round, ...] | None]:
    """Return what `usage` says of the path; (None, None) where it says nothing. Raises CountsError."""
    usage = body.get("usage") if isinstance(body, Mapping) else None
    record = usage.get(source.usage_field) if isinstance(usage, Mapping) and source.usage_field else None
    return (None, None) if record is None else parse_usage(record, source.rounds_field)


def response_id(body: Any) -> str:
    """Return the id of a body or event; "" where it has none."""
    value = body.get("id") if isinstance(body, Mapping) else None
    return value if isinstance(value, str) else ""


def _reply(
    body: Mapping[str, Any],
    *,
    text: str,
    ids: tuple[int, ...] | None,
    finish_reason: str | None,
    stop_reason: str | int | None,
    logprobs: Any,
    usage: Mapping[str, Any] | None,
    speech: Speech,
) -> Reply:
    if not response_id(body):
        raise BrokenBodyError(f"body: id={body.get('id')!r} is no string")
    details = (usage or {}).get("prompt_tokens_details") or {}
    if not isinstance(details, Mapping):
        raise BrokenBodyError(f"body: usage.prompt_tokens_details={details!r} is no object")
    return Reply(
        response_id=response_id(body),
        text=text,
        ids=ids,
        finish_reason=finish_reason,
        stop_reason=stop_reason,
        prompt_tokens=_optional_count(usage or {}, "prompt_tokens"),
        completion_tokens=_optional_count(usage or {}, "completion_tokens"),
        cached_tokens=_optional_count(details, speech.cached_field),
        logprobs=logprobs,
    )


def _only_choice(body: Any) -> Mapping[str, Any]:
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        raise BrokenBodyError(f"body: choices={choices!r}; want a list of one object")
    return choices[0]


def _choice_of_event(event: Any) -> Mapping[str, Any] | None:
    """Return the choice of an event; None for one that carries usage alone."""
    if isinstance(event, Mapping) and event.get("error") is not None:
        raise BrokenBodyError(f"stream: carried an error: {event['error']!r}")
    return None if isinstance(event, Mapping) and event.get("choices") == [] else _only_choice(event)


def _chunk_text(choice: Mapping[str, Any]) -> str:
    delta = choice.get("delta")
    if not isinstance(delta, Mapping):
        return _text(choice.get("text"), "choices[0].text")
    content = delta.get("content")
    return "" if content is None else _text(content, "choices[0].delta.content")  # the first names the role alone


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise BrokenBodyError(f"body: {place}={value!r} is no string")
    return value


def _optional_text(choice: Mapping[str, Any], key: str) -> str | None:
    return None if choice.get(key) is None else _text(choice[key], f"choices[0].{key}")


def _stop_reason(choice: Mapping[str, Any], speech: Speech) -> str | int | None:
    value = choice.get(speech.stop_reason_field)
    if value is None or isinstance(value, str) or _is_int(value):
        return value
    raise BrokenBodyError(f"body: choices[0].{speech.stop_reason_field}={value!r} is neither string, id nor null")


def _ids(choice: Mapping[str, Any], speech: Speech) -> tuple[int, ...] | None:
    value = choice.get(speech.ids_field)
    if value is None:
        return None
    if not isinstance(value, list) or not all(map(_is_int, value)):
        raise BrokenBodyError(f"body: choices[0].{speech.ids_field}={value!r} is no list of ids")
    return tuple(value)


def _usage(body: Any) -> Mapping[str, Any] | None:
    usage = body.get("usage") if isinstance(body, Mapping) else None
    if usage is None or isinstance(usage, Mapping):
        return usage
    raise BrokenBodyError(f"body: usage={usage!r} is no object")


def _optional_count(values: Mapping[str, Any], key: str) -> int | None:
    value = values.get(key)
    if value is None or _is_int(value):
        return value
    raise BrokenBodyError(f"body: usage {key}={value!r} is no count")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _join_logprobs(parts: Sequence[Any]) -> Any:
    """Join the lists of each key over all chunks, as an unstreamed answer holds them; None where no chunk has any."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    joined: dict[str, list[Any]] = {}
    for part in present:
        if not isinstance(part, Mapping):
            raise BrokenBodyError(f"stream: logprobs={part!r} is no object")
        for key, value in part.items():
            if not isinstance(value, list | None):
                raise BrokenBodyError(f"stream: logprobs.{key}={value!r} is no list")
            joined.setdefault(key, []).extend(value or [])
    return joined
