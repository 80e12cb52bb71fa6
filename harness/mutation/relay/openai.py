"""OpenAI's dialect with vLLM's additions, as the relay speaks it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from harness.mutation.relay.said import END, LENGTH, WORD, Said
from harness.mutation.relay.speech import Record, Scores, Speech


class OpenAI(Speech):
    """Completions and chat completions, with vLLM's additions."""

    logprob = "token_logprobs"
    of_row = ("token_logprobs", "top_logprobs")

    def generates(self, path: str) -> bool:
        """See Speech."""
        return path in (self.fields["completions"], self.fields["chat"])

    def budget(self, asked: Mapping[str, Any]) -> int | None:
        """See Speech."""
        budget = asked.get("max_tokens", asked.get("max_completion_tokens", 16))
        return budget if isinstance(budget, int) else None

    def said(self, body: Mapping[str, Any]) -> Said | None:
        """See Speech."""
        choice = _choice(body)
        text = _text_of(choice) if choice else None
        if choice is None or text is None or choice.get("finish_reason") not in ("length", "stop"):
            return None
        stop = choice.get(self.fields["stop_reason_field"])
        ids = choice.get(self.fields["ids_field"])
        is_id = isinstance(stop, int)
        finish = LENGTH if choice["finish_reason"] == "length" else END if is_id else WORD
        return Said(None if ids is None else tuple(ids), text, finish, stop)

    def saying(self, body: Mapping[str, Any], said: Said) -> dict[str, Any]:
        """See Speech."""
        changed = copy.deepcopy(dict(body))
        before, choice = self.said(body), _choice(changed)
        assert before is not None and choice is not None, "only a reply is changed"
        holder, key = (choice["message"], "content") if "message" in choice else (choice, "text")
        holder[key] = said.text
        if said.ids is not None:
            choice[self.fields["ids_field"]] = list(said.ids)
        choice["finish_reason"] = "length" if said.finish == LENGTH else "stop"
        if self.fields["stop_reason_field"] in choice:
            choice[self.fields["stop_reason_field"]] = said.stop
        usage = changed.get("usage")
        if isinstance(usage, dict) and isinstance(usage.get("completion_tokens"), int):
            usage["completion_tokens"] += said.num_tokens - before.num_tokens
        return changed

    def record(self, body: Mapping[str, Any]) -> Record | None:
        """See Speech."""
        usage = body.get("usage")
        found = usage.get(self.fields["usage_field"]) if isinstance(usage, Mapping) else None
        return dict(found) if isinstance(found, Mapping) else None

    def recording(self, body: Mapping[str, Any], record: Record) -> dict[str, Any]:
        """See Speech."""
        changed = copy.deepcopy(dict(body))
        if self.record(body) is not None:
            changed["usage"][self.fields["usage_field"]] = record
            details = changed["usage"].get("prompt_tokens_details")
            if isinstance(details, dict) and self.fields["cached_field"] in details:
                details[self.fields["cached_field"]] = record["cached"]
        return changed

    def prompt_tokens_key(self) -> tuple[str, ...]:
        """See Speech."""
        return "usage", "prompt_tokens"

    def delta(self, event: Mapping[str, Any]) -> str | None:
        """See Speech."""
        choice = _choice(event)
        return None if choice is None else _text_of(choice)

    def showing(self, event: Mapping[str, Any], text: str) -> dict[str, Any]:
        """See Speech."""
        changed = copy.deepcopy(dict(event))
        choice = _choice(changed)
        assert choice is not None, "only an event that can show text is changed"
        holder, key = (choice["delta"], "content") if "delta" in choice else (choice, "text")
        holder[key] = text
        return changed

    def joined(self, event: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        """See Speech."""
        joined = self.showing(other, (self.delta(event) or "") + (self.delta(other) or ""))
        choice, before = _choice(joined), _choice(event)
        key = self.fields["ids_field"]
        if choice is not None and before is not None and key in choice:
            choice[key] = [*(before.get(key) or ()), *choice[key]]
        return joined

    def finishes(self, event: Mapping[str, Any]) -> bool:
        """See Speech."""
        choice = _choice(event)
        return choice is not None and choice.get("finish_reason") is not None

    def scores(self, body: Mapping[str, Any]) -> list[Scores] | None:
        """See Speech; those of a chat, which are spelled otherwise, are left alone."""
        choice = _choice(body)
        found = choice.get("logprobs") if choice else None
        if not isinstance(found, Mapping) or not set(self.of_row) <= set(found):
            return None
        return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]

    def scoring(self, body: Mapping[str, Any], scores: Sequence[Scores] | None) -> dict[str, Any]:
        """See Speech."""
        changed = copy.deepcopy(dict(body))
        choice = _choice(changed)
        assert choice is not None, "only a reply is changed"
        names = choice["logprobs"] or ()
        choice["logprobs"] = None if scores is None else {name: [one[name] for one in scores] for name in names}
        return changed

    def empty(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """See Speech."""
        choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}
        if self.fields["ids_field"]:
            choice[self.fields["ids_field"]] = []
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return {"id": "cmpl-empty", "object": "text_completion", "model": asked.get("model"), "choices": [choice], "usage": usage}


def _choice(body: Mapping[str, Any]) -> dict[str, Any] | None:
    choices = body.get("choices")
    is_one = isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict)
    return choices[0] if is_one else None  # type: ignore[index]


def _text_of(choice: Mapping[str, Any]) -> str | None:
    for holder, key in ((choice.get("message"), "content"), (choice.get("delta"), "content"), (choice, "text")):
        if isinstance(holder, Mapping) and isinstance(holder.get(key), str):
            return str(holder[key])
    return None
