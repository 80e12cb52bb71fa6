"""From a plan's request, which speaks OpenAI's dialect, to one of SGLang's `POST /generate`. Pure; the one place that translates.

Every field is carried over, or it raises: nothing is dropped without a word.

Source: GenerateReqInput and SamplingParams of SGLang, https://github.com/sgl-project/sglang/blob/v0.5.23/python/sglang/srt/managers/io_struct.py
and .../srt/sampling/sampling_params.py at the same tag.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.records.plan import Request

PATH = "/generate"
FROM_PATH = "/v1/completions"
ALL = -1  # top_k of the whole vocabulary
SAMPLING = "sampling_params"


class UntranslatableError(UsageError):
    """A request asks what the dialect cannot say."""


def to_sglang(request: Request) -> Request:
    """Return the request as SGLang takes it. Raises UntranslatableError naming the fields that it has no words for."""
    if request.body is None or request.method != "POST":
        return request
    unsaid = untranslatable(request)
    if unsaid:
        raise UntranslatableError(f"request {request.id}: {'; '.join(unsaid)}: not in SGLang's dialect; leave it out of the plan")
    top: dict[str, Any] = {}
    sampling: dict[str, Any] = {"max_new_tokens": 16}  # the default of OpenAI's completions; its own is 128
    for name, value in request.body.items():
        top |= _TOP[name](value) if name in _TOP else {}
        sampling |= _SAMPLING[name](value) if name in _SAMPLING else {}
    return msgspec.structs.replace(request, path=PATH, body={**top, SAMPLING: sampling})


def untranslatable(request: Request) -> tuple[str, ...]:
    """Return what a request asks that the dialect cannot say, in words; () where it can all be said."""
    if request.raw is not None or (request.path != FROM_PATH and request.method == "POST"):
        return (f"a request of its own kind to {request.path}",)
    found = []
    for name, value in (request.body or {}).items():
        say = _TOP.get(name) or _SAMPLING.get(name)
        if say is None:
            found.append(f"field {name}")
            continue
        try:
            say(value)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            found.append(f"field {name}={value!r} ({error})")
    return tuple(found)


def _as(name: str) -> Callable[[Any], dict[str, Any]]:
    """Return a field of another name and the same meaning; null asks for nothing."""
    return lambda value: {} if value is None else {name: value}


def _nothing(_value: Any) -> dict[str, Any]:
    """Say nothing: every answer has it."""
    return {}


def _prompt(value: Any) -> dict[str, Any]:
    return {"text": value} if isinstance(value, str) else {"input_ids": value}


def _logprobs(value: Any) -> dict[str, Any]:
    if value is None or value is False:
        return {}
    return {"return_logprob": True, "top_logprobs_num": int(value), "return_text_in_logprobs": True}


def _top_k(value: int | None) -> dict[str, Any]:
    return {} if value is None else {"top_k": value or ALL}


def _response_format(value: Mapping[str, Any] | None) -> dict[str, Any]:
    kind = (value or {"type": "text"}).get("type")
    if kind == "text" or value is None:
        return {}
    if kind == "json_object":
        return {"json_schema": json.dumps({"type": "object"})}
    if kind == "json_schema":
        return {"json_schema": json.dumps(value["json_schema"]["schema"])}
    raise ValueError(f"type {kind!r} is not known")


def _structured_outputs(value: Mapping[str, Any] | None) -> dict[str, Any]:
    if value is None:
        return {}
    ((kind, what),) = value.items()
    if kind == "regex":
        return {"regex": what}
    if kind == "json":
        return {"json_schema": json.dumps(what)}
    raise ValueError(f"{kind} is not taken over")


_TOP: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "prompt": _prompt,
    "stream": _as("stream"),
    "stream_options": _nothing,  # every event has its counts
    "logprobs": _logprobs,
    "return_token_ids": _nothing,
    "return_spec": _nothing,
}
_SAMPLING: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "max_tokens": _as("max_new_tokens"),
    "temperature": _as("temperature"),
    "top_k": _top_k,
    "top_p": _as("top_p"),
    "seed": _as("sampling_seed"),
    "stop": _as("stop"),
    "ignore_eos": _as("ignore_eos"),
    "presence_penalty": _as("presence_penalty"),
    "frequency_penalty": _as("frequency_penalty"),
    "repetition_penalty": _as("repetition_penalty"),
    "logit_bias": _as("logit_bias"),
    "response_format": _response_format,
    "structured_outputs": _structured_outputs,
}
