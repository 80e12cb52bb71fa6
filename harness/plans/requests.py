"""Requests with ids made of what they ask, so that two slices that ask the same share one answer."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.records.fixture import Stream
from harness.records.plan import Request


def completion(
    source: Stream,
    max_tokens: int,
    check: str,
    /,
    *,
    role: str = "",
    label: str = "",
    leave_after_chunks: int | None = None,
    **fields: Any,
) -> Request:
    """Return a greedy completion of a stream's prompt, with ids and counts asked back.

    `fields` are further fields of the body (stop, stream, seed, temperature, ...) and become part of the id, as does `label`,
    which sets apart requests that ask the same on purpose (a probe after each disturbance).
    """
    body = {
        "prompt": source.prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "return_token_ids": True,
        "return_spec": True,
        **fields,
    }
    parts = [source.name, str(max_tokens), *(f"{key}={_brief(value)}" for key, value in sorted(fields.items()))]
    if leave_after_chunks is not None:
        parts.append(f"leave={leave_after_chunks}")
    if label:
        parts.append(label)
    return Request(
        id="/".join(parts),
        checks=(check,),
        body=body,
        role=role,
        prompt_ids=source.prompt_ids,
        leave_after_chunks=leave_after_chunks,
    )


def streamed(source: Stream, max_tokens: int, check: str, /, *, role: str = "", label: str = "", **fields: Any) -> Request:
    """Return the same request as `completion`, answered as a stream with usage."""
    return completion(
        source,
        max_tokens,
        check,
        role=role,
        label=label,
        stream=True,
        stream_options={"include_usage": True},
        **fields,
    )


def chat(source: Stream, max_tokens: int, check: str, /, *, role: str = "", label: str = "", **fields: Any) -> Request:
    """Return a greedy chat whose one message is a stream's prompt. What it becomes after the template is not known here."""
    asked = completion(source, max_tokens, check, role=role, label=label, **fields)
    body = {name: value for name, value in (asked.body or {}).items() if name != "prompt"}
    return msgspec.structs.replace(
        asked,
        id=f"chat/{asked.id}",
        path="/v1/chat/completions",
        body={"messages": [{"role": "user", "content": source.prompt}], **body},
        prompt_ids=(),
    )


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return "+".join(value)
    if isinstance(value, list | tuple):
        return ",".join(_brief(item) for item in value)
    return str(value)
