"""llama.cpp's dialect, as the relay speaks it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from harness.mutation.relay.said import END, LENGTH, WORD, Said
from harness.mutation.relay.speech import Record, Scores, Speech


class Llama(Speech):
    """llama.cpp's own POST /completion."""

    logprob = "logprob"
    of_row = ("logprob", "top_logprobs")
    _STOP_TYPES = {"limit": LENGTH, "word": WORD, "eos": END}

    def generates(self, path: str) -> bool:
        """See Speech."""
        return path == "/completion"

    def budget(self, asked: Mapping[str, Any]) -> int | None:
        """See Speech."""
        budget = asked.get("n_predict")
        return budget if isinstance(budget, int) else None

    def said(self, body: Mapping[str, Any]) -> Said | None:
        """See Speech."""
        finish = self._STOP_TYPES.get(str(body.get("stop_type")))
        if finish is None or not isinstance(body.get("content"), str):
            return None
        ids = tuple(body.get("tokens") or ()) or None
        if finish != END:
            return Said(ids, body["content"], finish, body.get("stopping_word") if finish == WORD else None)
        return Said(None if ids is None else ids[:-1], body["content"], finish, None if ids is None else ids[-1])

    def saying(self, body: Mapping[str, Any], said: Said) -> dict[str, Any]:
        """See Speech."""
        changed = copy.deepcopy(dict(body))
        before = self.said(body)
        assert before is not None, "only a reply is changed"
        was_ended, is_ended = before.finish == END, said.finish == END
        names = {finish: name for name, finish in self._STOP_TYPES.items()}
        changed |= {"content": said.text, "stop_type": names[said.finish]}
        changed["stopping_word"] = (said.stop or "") if said.finish == WORD else ""
        if said.ids is not None:
            changed["tokens"] = [*said.ids, *((said.stop,) if is_ended else ())]
        more = said.num_tokens - before.num_tokens + is_ended - was_ended
        changed["tokens_predicted"] += more
        changed["timings"]["predicted_n"] += more
        return changed

    def record(self, body: Mapping[str, Any]) -> Record | None:
        """See Speech."""
        timings = body.get("timings")
        if not isinstance(timings, Mapping):
            return None
        return {
            "drafted": timings.get("draft_n", 0),
            "accepted": timings.get("draft_n_accepted", 0),
            "cached": timings.get("cache_n", 0),
        }

    def recording(self, body: Mapping[str, Any], record: Record) -> dict[str, Any]:
        """See Speech."""
        changed = copy.deepcopy(dict(body))
        timings = changed["timings"]
        for name in ("draft_n", "draft_n_accepted"):  # absent where nothing was drafted
            timings.pop(name, None)
        if record["drafted"]:
            timings |= {"draft_n": record["drafted"], "draft_n_accepted": record["accepted"]}
        timings["cache_n"] = record["cached"]
        return changed

    def prompt_tokens_key(self) -> tuple[str, ...]:
        """See Speech."""
        return ("tokens_evaluated",)

    def delta(self, event: Mapping[str, Any]) -> str | None:
        """See Speech."""
        text = event.get("content")
        return text if isinstance(text, str) else None

    def showing(self, event: Mapping[str, Any], text: str) -> dict[str, Any]:
        """See Speech."""
        return {**event, "content": text}

    def joined(self, event: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        """See Speech."""
        tokens = [*(event.get("tokens") or ()), *(other.get("tokens") or ())]
        return {**other, "content": event["content"] + other["content"], "tokens": tokens}

    def finishes(self, event: Mapping[str, Any]) -> bool:
        """See Speech."""
        return event.get("stop") is True

    def scores(self, body: Mapping[str, Any]) -> list[Scores] | None:
        """See Speech."""
        found = body.get("completion_probabilities")
        return [dict(one) for one in found] if isinstance(found, list) and found else None

    def scoring(self, body: Mapping[str, Any], scores: Sequence[Scores] | None) -> dict[str, Any]:
        """See Speech."""
        changed = {name: value for name, value in body.items() if name != "completion_probabilities"}
        return changed if scores is None else {**changed, "completion_probabilities": list(scores)}

    def empty(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """See Speech."""
        timings = {"cache_n": 0, "prompt_n": 0, "predicted_n": 0}
        said = {"content": "", "tokens": [], "stop": True, "stop_type": "limit", "stopping_word": ""}
        return {
            "index": 0,
            **said,
            "tokens_predicted": 0,
            "tokens_evaluated": 0,
            "prompt": asked.get("prompt"),
            "timings": timings,
        }
