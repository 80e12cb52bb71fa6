"""From a plan's request, which speaks OpenAI's dialect, to one of llama.cpp's `POST /completion`. Pure; the one place that translates.

Every field is carried over, or it raises: nothing is dropped without a word. What llama.cpp would fill with defaults of its own
(temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, penalties over the last 64 tokens) is sent with OpenAI's.

Source: tools/server/README.md of llama.cpp, section POST /completion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from harness.records.plan import Request
from harness.subjects.gbnf import grammar_of
from harness.subjects.translation import Say, UntranslatableError, as_named, nothing, unsaid

PATH = "/completion"
DEFAULTS: Mapping[str, Any] = {
    "temperature": 1.0,
    "top_k": 0,  # all
    "top_p": 1.0,
    "min_p": 0.0,
    "repeat_last_n": 1 << 16,  # penalties look at the whole context; there is no number that says so
    "return_tokens": False,
    "cache_prompt": False,
}


def to_llama(request: Request) -> Request:
    """Return the request as llama.cpp takes it. Raises UntranslatableError naming the fields that it has no words for."""
    if request.body is None or request.method != "POST":
        return request
    missing = untranslatable(request)
    if missing:
        raise UntranslatableError(
            f"request {request.id}: {'; '.join(missing)}: not in llama.cpp's dialect; leave it out of the plan"
        )
    body: dict[str, Any] = dict(DEFAULTS)
    for name, value in request.body.items():
        body |= _FIELDS[name](value)
    return msgspec.structs.replace(request, path=PATH, body=body)


def untranslatable(request: Request) -> tuple[str, ...]:
    """Return what a request asks that the dialect cannot say, in words; () where it can all be said."""
    return unsaid(request, _FIELDS)


def _logprobs(value: Any) -> dict[str, Any]:
    """0 asks for the chosen token alone, which llama.cpp shows beside at least one alternative."""
    return {} if value is None or value is False else {"n_probs": max(int(value), 1)}


def _logit_bias(value: Mapping[str, float] | None) -> dict[str, Any]:
    return {"logit_bias": [[int(token), bias] for token, bias in (value or {}).items()]}


def _response_format(value: Mapping[str, Any] | None) -> dict[str, Any]:
    kind = (value or {"type": "text"}).get("type")
    if kind == "text" or value is None:
        return {}
    if kind == "json_object":
        return {"json_schema": {"type": "object"}}
    if kind == "json_schema":
        return {"json_schema": value["json_schema"]["schema"]}
    raise ValueError(f"type {kind!r} is not known")


def _structured_outputs(value: Mapping[str, Any] | None) -> dict[str, Any]:
    if value is None:
        return {}
    ((kind, what),) = value.items()
    if kind == "regex":
        return {"grammar": grammar_of(what)}
    if kind == "json":
        return {"json_schema": what}
    raise ValueError(f"{kind} is not taken over")


_FIELDS: Mapping[str, Say] = {
    "prompt": as_named("prompt"),
    "max_tokens": as_named("n_predict"),
    "temperature": as_named("temperature"),
    "top_k": as_named("top_k"),
    "top_p": as_named("top_p"),
    "seed": as_named("seed"),
    "stop": as_named("stop"),
    "stream": as_named("stream"),
    "stream_options": nothing,  # the last event of a stream has everything
    "ignore_eos": as_named("ignore_eos"),
    "presence_penalty": as_named("presence_penalty"),
    "frequency_penalty": as_named("frequency_penalty"),
    "repetition_penalty": as_named("repeat_penalty"),
    "logprobs": _logprobs,
    "logit_bias": _logit_bias,
    "response_format": _response_format,
    "structured_outputs": _structured_outputs,
    "return_token_ids": as_named("return_tokens"),
    "return_spec": nothing,  # every answer has its timings
}
