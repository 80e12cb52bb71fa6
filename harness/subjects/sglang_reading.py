"""From SGLang's answers to Reply, Chunk and Counts. Pure. Whatever breaks the dialect is a BrokenBodyError; it judges no value.

Two things are put into the house's form: an end token, which SGLang lists and counts as the last one of a reply, is taken off; and its
scores, [logprob, id, text] each, become logprobs as OpenAI's completions spell them.

Source: TokenizerManager of SGLang, https://github.com/sgl-project/sglang/blob/v0.5.23/python/sglang/srt/managers/tokenizer_manager.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.records.recording import Chunk, Counts, Reply
from harness.subjects import end_tokens
from harness.subjects.counts import CountsError, is_count
from harness.subjects.reading import BrokenBodyError

LENGTH, STOP = "length", "stop"  # type of a finish_reason; "abort" is no reply
SPEC = ("spec_verify_ct", "spec_num_proposed_drafts", "spec_num_correct_drafts")  # all absent where no verify ran
SCORES, ALTERNATIVES = "output_token_logprobs", "output_top_logprobs"


def read_reply(body: Any) -> Reply:
    """Return the reply of an unstreamed answer, or of what a stream's events add up to. Raises BrokenBodyError."""
    meta = _meta(body)
    kind, matched = _finish(meta)
    if kind is None:
        raise BrokenBodyError("body: meta_info.finish_reason=None; want how the reply ended")
    ids = _ids(body)
    num_tokens = _count(meta, "completion_tokens")
    if len(ids) != num_tokens:
        raise BrokenBodyError(f"body: {len(ids)} output_ids beside meta_info.completion_tokens={num_tokens}")
    reply = Reply(
        response_id=_text(meta, "id"),
        text=_text(body, "text"),
        ids=ids,
        finish_reason=kind,
        stop_reason=matched,
        prompt_tokens=_count(meta, "prompt_tokens"),
        completion_tokens=num_tokens,
        cached_tokens=_count(meta, "cached_tokens"),
        logprobs=_logprobs(meta),
    )
    return end_tokens.without(reply)


def read_chunk(event: Any) -> Chunk:
    """Return one event of a stream started with --incremental-streaming-output. Raises BrokenBodyError."""
    if not isinstance(event, Mapping) or event.get("error") is not None:
        raise BrokenBodyError(f"stream: carried {event!r}")
    kind, _ = _finish(_meta(event))
    return Chunk(text=_text(event, "text"), ids=_ids(event), finish_reason=kind, has_usage=kind is not None)


def join_events(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the body that a stream's events add up to; counts are the last one's. Raises BrokenBodyError."""
    if not events:
        raise BrokenBodyError("stream: carried no event")
    meta = dict(_meta(events[-1]))
    for name in (SCORES, ALTERNATIVES):
        if name in meta:
            meta[name] = [one for event in events for one in _meta(event).get(name) or ()]
    return {
        "text": "".join(_text(event, "text") for event in events),
        "output_ids": [token for event in events for token in _ids(event)],
        "meta_info": meta,
    }


def read_counts(body: Any, reply: Reply, *, may_lack: bool) -> Counts:
    """Return what `meta_info` says of drafts; all of it may be absent, where no verify ran. Raises CountsError."""
    meta = _meta(body)
    found = [name for name in SPEC if name in meta]
    if found and len(found) < len(SPEC):
        raise CountsError(f"meta_info: {', '.join(SPEC)} come together or not at all; found {', '.join(found)}")
    if not found and not may_lack:
        raise CountsError(f"meta_info: {SPEC[0]} is missing")
    rounds, drafted, accepted = (_counted(meta, name) if found else 0 for name in SPEC)
    assert reply.completion_tokens is not None, "read_reply counts them"
    return Counts(
        path="spec" if drafted else "plain",
        drafter=None,
        rounds=rounds,
        drafted=drafted,
        accepted=accepted,
        plain=None,
        tokens=reply.completion_tokens,
        cached=reply.cached_tokens,
        fallback=None,
        reason=None,
    )


def _finish(meta: Mapping[str, Any]) -> tuple[str | None, str | int | None]:
    """Return how a reply ended and what ended it; (None, None) of an event before the last one."""
    reason = meta.get("finish_reason")
    if reason is None:
        return None, None
    kind = reason.get("type") if isinstance(reason, Mapping) else None
    matched = reason.get("matched") if isinstance(reason, Mapping) else None
    if kind not in (LENGTH, STOP) or not (matched is None or isinstance(matched, str) or is_count(matched)):
        raise BrokenBodyError(f"body: meta_info.finish_reason={reason!r}; want type {LENGTH} or {STOP}, and what matched")
    return kind, matched


def _logprobs(meta: Mapping[str, Any]) -> dict[str, list[Any]] | None:
    """Spell scores as OpenAI's completions do: a token's alternatives hold itself, also where it is not among the best."""
    scores = meta.get(SCORES)
    if scores is None:
        return None
    alternatives = meta.get(ALTERNATIVES) or [None] * len(scores)
    if not isinstance(scores, list) or not isinstance(alternatives, list) or len(alternatives) != len(scores):
        raise BrokenBodyError(f"body: meta_info.{SCORES} and {ALTERNATIVES} are no two lists of one length")
    chosen = [_score(one) for one in scores]
    tokens = [token for token, _ in chosen]
    return {
        "tokens": tokens,
        "token_logprobs": [logprob for _, logprob in chosen],
        "top_logprobs": [
            {**dict(map(_score, others)), **dict([one])} if others else {}
            for one, others in zip(chosen, alternatives, strict=True)
        ],
        "text_offset": [sum(map(len, tokens[:index])) for index in range(len(tokens))],
    }


def _score(one: Any) -> tuple[str, float]:
    match one:
        case [float() | int() as logprob, int(), str() as text]:
            return text, float(logprob)
        case _:
            raise BrokenBodyError(f"body: score {one!r}; want [logprob, id, text]")


def _meta(body: Any) -> Mapping[str, Any]:
    meta = body.get("meta_info") if isinstance(body, Mapping) else None
    if not isinstance(meta, Mapping):
        raise BrokenBodyError(f"body: meta_info={meta!r} is no object")
    return meta


def _ids(body: Mapping[str, Any]) -> tuple[int, ...]:
    value = body.get("output_ids")
    if not isinstance(value, list) or not all(map(is_count, value)):
        raise BrokenBodyError(f"body: output_ids={value!r} is no list of ids")
    return tuple(value)


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise BrokenBodyError(f"body: {key}={value!r} is no string")
    return value


def _count(meta: Mapping[str, Any], key: str) -> int:
    value: Any = meta.get(key)
    if not is_count(value):
        raise BrokenBodyError(f"body: meta_info.{key}={value!r} is no count")
    return int(value)


def _counted(meta: Mapping[str, Any], key: str) -> int:
    value: Any = meta.get(key)
    if not is_count(value):
        raise CountsError(f"meta_info: {key}={value!r} is no count")
    return int(value)
