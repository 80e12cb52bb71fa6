"""From llama.cpp's answers to Reply, Chunk and Counts. Pure. Whatever breaks the dialect is a BrokenBodyError; it judges no value.

Two things are put into the house's form: an end token, which llama.cpp lists and counts as the last one of a reply, is taken off and
becomes the stop reason; and `completion_probabilities` become logprobs as OpenAI's completions spell them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.records.recording import Chunk, Counts, Reply
from harness.subjects.counts import CountsError
from harness.subjects.reading import BrokenBodyError

LIMIT, WORD, EOS = "limit", "word", "eos"  # stop_type
_FINISH = {LIMIT: "length", WORD: "stop", EOS: "stop"}


def read_reply(body: Any, *, is_streamed: bool = False) -> Reply:
    """Return the reply of an unstreamed answer, or of a stream's last event with all that came before. Raises BrokenBodyError.

    The ids of a stream are those that its events held, be they all or not.
    """
    kind = _text(body, "stop_type")
    if kind not in _FINISH:
        raise BrokenBodyError(f"body: stop_type={kind!r}; want one of {', '.join(_FINISH)}")
    ids = _ids(body)
    num_tokens = _count(body, "tokens_predicted")
    if ids is not None and len(ids) != num_tokens and not is_streamed:
        raise BrokenBodyError(f"body: {len(ids)} tokens beside tokens_predicted={num_tokens}")
    stop_reason: str | int | None = _text(body, "stopping_word") if kind == WORD else None
    scores = body.get("completion_probabilities")
    if kind == EOS:
        stop_reason = ids[-1] if ids else None  # of a stream, its last event but one
        ids, num_tokens = ids[:-1] if ids is not None else None, num_tokens - 1
        scores = scores[:num_tokens] if isinstance(scores, list) else scores
    return Reply(
        response_id="",  # the dialect has none
        text=_text(body, "content"),
        ids=ids,
        finish_reason=_FINISH[kind],
        stop_reason=stop_reason,
        prompt_tokens=_count(body, "tokens_evaluated"),
        completion_tokens=num_tokens,
        cached_tokens=_count(_timings(body), "cache_n"),
        logprobs=None if scores is None else _logprobs(scores),
    )


def read_chunk(event: Any) -> Chunk:
    """Return one event of a stream; the last one, which says how the reply ended, shows no token. Raises BrokenBodyError."""
    if not isinstance(event, Mapping) or event.get("error") is not None:
        raise BrokenBodyError(f"stream: carried {event!r}")
    if not _flag(event, "stop"):
        return Chunk(text=_text(event, "content"), ids=_ids(event) or ())
    kind = _text(event, "stop_type")
    if kind not in _FINISH:
        raise BrokenBodyError(f"stream: stop_type={kind!r}; want one of {', '.join(_FINISH)}")
    return Chunk(text=_text(event, "content"), ids=_ids(event) or (), finish_reason=_FINISH[kind], has_usage=True)


def is_closing(event: Any) -> bool:
    """Whether an event is the one that a stream ends with."""
    return isinstance(event, Mapping) and event.get("stop") is True


def join_events(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the body that a stream's events add up to. Raises BrokenBodyError."""
    if not events:
        raise BrokenBodyError("stream: carried no event")
    last = events[-1]
    if not is_closing(last):
        raise BrokenBodyError("stream: its last event does not end it")
    returns_ids = any(event.get("tokens") for event in events)
    joined: dict[str, Any] = {
        **last,
        "content": "".join(_text(event, "content") for event in events),
        "tokens": [token for event in events for token in event.get("tokens", [])] if returns_ids else [],
    }
    scores = [one for event in events for one in event.get("completion_probabilities", [])]
    return {**joined, "completion_probabilities": scores} if scores else joined


def read_counts(body: Mapping[str, Any], *, may_lack: bool = True) -> Counts:
    """Return what `timings` say: drafted and accepted may be absent, where nothing was drafted. Raises CountsError."""
    timings = body.get("timings")
    if not isinstance(timings, Mapping):
        raise CountsError(f"timings={timings!r}: are no object")
    if ("draft_n" in timings) != ("draft_n_accepted" in timings):
        raise CountsError("timings: draft_n and draft_n_accepted come together or not at all")
    drafted = _counted(timings, "draft_n") if "draft_n" in timings or not may_lack else 0
    is_ended = body.get("stop_type") == EOS
    return Counts(
        path="spec" if drafted else "plain",
        drafter=None,
        rounds=None,
        drafted=drafted,
        accepted=_counted(timings, "draft_n_accepted") if drafted else 0,
        plain=None,
        tokens=_counted(timings, "predicted_n") - is_ended,
        cached=_counted(timings, "cache_n"),
        fallback=None,
        reason=None,
    )


def _logprobs(scores: Any) -> dict[str, list[Any]]:
    """Spell scores as OpenAI's completions do; an entry without alternatives keeps an empty table."""
    if not isinstance(scores, list) or not all(isinstance(one, Mapping) for one in scores):
        raise BrokenBodyError(f"body: completion_probabilities={scores!r} is no list of objects")
    tokens = [one.get("token") for one in scores]
    offsets = [sum(len(token or "") for token in tokens[:index]) for index in range(len(tokens))]
    return {
        "tokens": tokens,
        "token_logprobs": [one.get("logprob") for one in scores],
        "top_logprobs": [_alternatives(one) for one in scores],
        "text_offset": offsets,
    }


def _alternatives(score: Mapping[str, Any]) -> dict[str, Any]:
    """Return the alternatives of one token, itself among them where there are any: a sampled one need not be among the best."""
    entries = score.get("top_logprobs")
    if not isinstance(entries, list) or not all(isinstance(one, Mapping) for one in entries):
        raise BrokenBodyError(f"body: top_logprobs={entries!r} is no list of objects")
    named = {str(one.get("token")): one.get("logprob") for one in entries}
    return named if not named else {**named, str(score.get("token")): score.get("logprob")}


def _timings(body: Any) -> Any:
    timings = body.get("timings")
    return timings if isinstance(timings, Mapping) else {}


def _ids(body: Any) -> tuple[int, ...] | None:
    """Return the ids of a body; an empty list stands for none asked for, unless nothing was said."""
    value = body.get("tokens")
    if not isinstance(value, list) or not all(map(_is_count, value)):
        raise BrokenBodyError(f"body: tokens={value!r} is no list of ids")
    return tuple(value) if value or body.get("tokens_predicted") == 0 else None


def _text(body: Any, key: str) -> str:
    value = body.get(key) if isinstance(body, Mapping) else None
    if not isinstance(value, str):
        raise BrokenBodyError(f"body: {key}={value!r} is no string")
    return value


def _flag(body: Mapping[str, Any], key: str) -> bool:
    value = body.get(key)
    if not isinstance(value, bool):
        raise BrokenBodyError(f"stream: {key}={value!r} is neither true nor false")
    return value


def _count(body: Any, key: str) -> int:
    value: Any = body.get(key)
    if not _is_count(value):
        raise BrokenBodyError(f"body: {key}={value!r} is no count")
    return int(value)


def _counted(timings: Mapping[str, Any], key: str) -> int:
    value: Any = timings.get(key)
    if not _is_count(value):
        raise CountsError(f"timings: {key}={value!r} is no count")
    return int(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
