"""Bodies of both dialects, as subjects answer them, and the faults that are tried on them."""

from __future__ import annotations

from typing import Any

from harness.mutation.relay.fault import Asked, Fault
from harness.mutation.relay.process import fault_of

FIELDS = {
    "completions": "/v1/completions",
    "chat": "/v1/chat/completions",
    "ids_field": "token_ids",
    "stop_reason_field": "stop_reason",
    "cached_field": "cached_tokens",
    "usage_field": "spec",
}
RECORD: dict[str, Any] = {
    "path": "spec",
    "drafter": "lookup",
    "rounds": 2,
    "drafted": 7,
    "accepted": 3,
    "plain": 1,
    "tokens": 6,
    "cached": 0,
    "fallback": None,
    "reason": "-",
    "per_round": [[[11, 12, 99], 2], [[14, 15, 16, 17], 1]],
}
TEXT, IDS = "abcdef", (10, 11, 12, 13, 14, 15)
SCORES = [{"tokens": character, "token_logprobs": -0.1 * place, "top_logprobs": {character: -0.1 * place}, "text_offset": place}
          for place, character in enumerate(TEXT)]  # fmt: skip


def openai(
    text: str = TEXT,
    ids: tuple[int, ...] | None = IDS,
    finish: str = "length",
    stop: str | int | None = None,
    record: dict[str, Any] | None = None,
) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "stop_reason": stop}
    if ids is not None:
        choice["token_ids"] = list(ids)
    usage: dict[str, Any] = {
        "prompt_tokens": 4,
        "completion_tokens": len(text) if ids is None else len(ids),
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    return {"id": "cmpl-7", "choices": [choice], "usage": usage | {"spec": dict(record or RECORD)}}


def llama(
    text: str = TEXT, ids: tuple[int, ...] = IDS, kind: str = "limit", word: str = "", drafted: tuple[int, int] | None = (7, 3)
) -> dict[str, Any]:
    timings = {"cache_n": 0, "predicted_n": len(ids), "predicted_ms": 0.5}
    if drafted:
        timings |= {"draft_n": drafted[0], "draft_n_accepted": drafted[1]}
    return {
        "content": text,
        "tokens": list(ids),
        "stop": True,
        "stop_type": kind,
        "stopping_word": word,
        "tokens_predicted": len(ids),
        "tokens_evaluated": 4,
        "timings": timings,
    }


def fault(name: str, dialect: str = "openai", **table: Any) -> Fault:
    """Return a fault as the relay's process makes it."""
    settings = {"fault": {"fault": name, **table}, "dialect": dialect, "fields": FIELDS, "line_prefix": "[spec]"}
    return fault_of(settings)


def asked(number: int = 1, **body: Any) -> Asked:
    return Asked(number, {"prompt": "p", "temperature": 0, "max_tokens": 6, "n_predict": 6, **body})
