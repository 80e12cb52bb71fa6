"""What a reply must be, from what the model says greedily: cut by budget, context, end tokens and stops. Knows no model."""

from __future__ import annotations

from dataclasses import dataclass

from harness.oracle.packs import FLOAT32_MARGIN
from harness.oracle.spelling import spell
from harness.records.expectation import Choice, ModelFacts, Saying
from harness.records.plan import Request


@dataclass(frozen=True, slots=True)
class ExpectedReply:
    """The one right greedy reply, and the choices that it took."""

    ids: tuple[int, ...]
    text: str
    finish_reason: str
    stop_reason: str | int | None
    choices: tuple[Choice, ...]  # an end token's among them

    @property
    def is_certain(self) -> bool:
        """Whether no rounding of a right engine can change a choice."""
        return all(choice.margin >= FLOAT32_MARGIN for choice in self.choices)


def budget_of(request: Request, facts: ModelFacts) -> int:
    """Return the tokens that a reply may have: what was asked, within the model's context."""
    return min(request.max_tokens, facts.context - len(request.prompt_ids))


def expected_reply(request: Request, saying: Saying, facts: ModelFacts) -> ExpectedReply | None:
    """Return the reply to a greedy request; None where what is known of the model does not reach to its end."""
    body = request.body or {}
    asked = body.get("stop") or ()
    stops = (asked,) if isinstance(asked, str) else tuple(asked)
    ends = () if body.get("ignore_eos") else facts.end_tokens
    budget = budget_of(request, facts)
    ids: list[int] = []
    for choice in saying.choices[: budget + 1]:
        used = saying.choices[: len(ids) + 1]
        if choice.token in ends:
            return ExpectedReply(tuple(ids), spell(ids), "stop", choice.token, used)
        ids.append(choice.token)
        text = spell(ids)
        complete = sorted((text.find(stop), stop) for stop in stops if stop in text)
        if complete:
            cut, stop = complete[0]
            return ExpectedReply(tuple(ids), text[:cut], "stop", stop, used)
        if len(ids) == budget:
            return ExpectedReply(tuple(ids), text, "length", None, used)
    return None
