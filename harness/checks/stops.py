"""What a stop sequence must leave of a reply, by the rule alone: the reply without stops is known. Knows no engine and no check.

The text is cut at the earliest start among the stops that are complete so far; the ids run up to and including the token that
completed one. A stop that the budget's last token completes wins over the budget.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.records.plan import Request
from harness.records.recording import Reply


def stops_of(request: Request) -> tuple[str, ...]:
    """Return the stop sequences that a request asks for."""
    asked = (request.body or {}).get("stop") or ()
    return (asked,) if isinstance(asked, str) else tuple(asked)


def text_before(text: str, stops: Sequence[str]) -> str:
    """Return `text` cut at the earliest start among the stops in it; all of it where none is."""
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]


def stopped(whole: Reply, stops: Sequence[str], budget: int) -> Reply | None:
    """Return what must be left of `whole`, a reply of one character per token; None for any other reply.

    `whole` must hold at least `budget` tokens, or end by itself.
    """
    if whole.ids is not None and len(whole.ids) != len(whole.text):
        return None
    for num_tokens in range(1, min(budget, len(whole.text)) + 1):
        so_far = whole.text[:num_tokens]
        complete = [stop for stop in stops if stop in so_far]
        if complete:  # by this one token: the longest has the earliest start, so it is the one that cuts
            return _ended(whole, num_tokens, text_before(so_far, stops), "stop", max(complete, key=len))
    if len(whole.text) < budget:
        return whole
    return _ended(whole, budget, whole.text[:budget], "length", None)


def _ended(whole: Reply, num_tokens: int, text: str, finish_reason: str, stop_reason: str | None) -> Reply:
    """Return the first tokens of a reply, ended there."""
    return msgspec.structs.replace(
        whole,
        text=text,
        ids=None if whole.ids is None else whole.ids[:num_tokens],
        finish_reason=finish_reason,
        stop_reason=stop_reason,
        completion_tokens=num_tokens,
    )
