"""From a plan's request, which speaks OpenAI's dialect, to one of SGLang's `POST /generate`. Pure; the one place that translates.

Every field is carried over, or it raises: nothing is dropped without a word.

Source: GenerateReqInput and SamplingParams of SGLang, https://github.com/sgl-project/sglang/blob/v0.5.23/python/sglang/srt/managers/io_struct.py
and .../srt/sampling/sampling_params.py at the same tag.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from harness.records.plan import Request
from harness.subjects.translation import Say, UntranslatableError, as_named, nothing, unsaid

PATH = "/generate"
ALL = -1  # top_k of the whole vocabulary
SAMPLING = "sampling_params"


def to_sglang(request: Request) -> Request:
    """Return the request as SGLang takes it. Raises UntranslatableError naming the fields that it has no words for."""
    if request.body is None or request.method != "POST":
        return request
    missing = untranslatable(request)
    if missing:
        raise UntranslatableError(
            f"request {request.id}: {'; '.join(missing)}: not in SGLang's dialect; leave it out of the plan"
        )
    top: dict[str, Any] = {}
    sampling: dict[str, Any] = {"max_new_tokens": 16}  # the default of OpenAI's completions; its own is 128
    for name, value in request.body.items():
        top |= _TOP[name](value) if name in _TOP else {}
        sampling |= _SAMPLING[name](value) if name in _SAMPLING else {}
    return msgspec.structs.replace(request, path=PATH, body={**top, SAMPLING: sampling})


def untranslatable(request: Request) -> tuple[str, ...]:
    """Return what a request asks that the dialect cannot say, in words; () where it can all be said."""
    return unsaid(request, _ALL)


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


_TOP: Mapping[str, Say] = {
    "prompt": _prompt,
    "stream": as_named("stream"),
    "stream_options": nothing,  # every event has its counts
    "logprobs": _logprobs,
    "return_token_ids": nothing,
    "return_spec": nothing,
}
_SAMPLING: Mapping[str, Say] = {
    "max_tokens": as_named("max_new_tokens"),
    "temperature": as_named("temperature"),
    "top_k": _top_k,
    "top_p": as_named("top_p"),
    "seed": as_named("sampling_seed"),
    "stop": as_named("stop"),
    "ignore_eos": as_named("ignore_eos"),
    "presence_penalty": as_named("presence_penalty"),
    "frequency_penalty": as_named("frequency_penalty"),
    "repetition_penalty": as_named("repetition_penalty"),
    "logit_bias": as_named("logit_bias"),
    "response_format": _response_format,
    "structured_outputs": _structured_outputs,
}
_ALL: Mapping[str, Say] = {**_TOP, **_SAMPLING}
