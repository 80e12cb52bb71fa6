"""An end token that an engine lists and counts, taken off a reply: the house's form has it in no ids, count or score.

It knows no dialect: how a reply ended tells whether its last token is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harness.records.recording import Chunk, Reply

STOP = "stop"


def without(reply: Reply) -> Reply:
    """Return a reply that no stop string ended without the end token that did, which becomes its stop reason.

    A reply without ids does not say which token that was, and one of no tokens at all has none.
    """
    if reply.finish_reason != STOP or isinstance(reply.stop_reason, str) or not (reply.completion_tokens or reply.ids):
        return reply
    return msgspec.structs.replace(
        reply,
        ids=None if reply.ids is None else reply.ids[:-1],
        stop_reason=reply.ids[-1] if reply.ids else reply.stop_reason,
        completion_tokens=None if reply.completion_tokens is None else reply.completion_tokens - 1,
        logprobs=_without_last(reply.logprobs, reply.completion_tokens),
    )


def visible(chunks: Sequence[Chunk], reply: Reply) -> tuple[Chunk, ...]:
    """Return a stream's chunks without the end token, which is in no reply; it comes in the last chunk that holds an id."""
    if reply.ids is None or sum(len(chunk.ids) for chunk in chunks) == len(reply.ids):
        return tuple(chunks)
    holds = max(index for index, chunk in enumerate(chunks) if chunk.ids)
    return tuple(
        Chunk(chunk.text, chunk.ids[:-1], chunk.finish_reason, chunk.has_usage) if index == holds else chunk
        for index, chunk in enumerate(chunks)
    )


def _without_last(logprobs: Any, num_tokens: int | None) -> Any:
    """Return scores without the last token's, where each list holds one entry for each token."""
    if not isinstance(logprobs, Mapping):
        return logprobs
    return {
        name: value[:-1] if isinstance(value, list) and len(value) == num_tokens else value for name, value in logprobs.items()
    }
