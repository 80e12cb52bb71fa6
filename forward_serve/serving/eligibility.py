"""Who speculates, and why not: each rule is a precondition of losslessness. Knows no drafter and no loop."""

from __future__ import annotations

import enum

from forward_serve.serving.request import Request


class PlainReason(enum.StrEnum):
    """Why a request of a server with a drafter takes the plain loop. Of several, the first in this order is named."""

    SAMPLED = "sampled"
    GRAMMAR = "grammar"
    LOGPROBS = "logprobs"
    DUMP_LOGITS = "dump-logits"
    PENALTIES = "penalties"
    LOGIT_BIAS = "logit-bias"


def plain_reason(request: Request, *, dumps_logits: bool) -> PlainReason | None:
    """Return why this request may not speculate; None where it may."""
    holds = {
        PlainReason.SAMPLED: not request.sampling.is_greedy,
        PlainReason.GRAMMAR: request.grammar is not None,
        PlainReason.LOGPROBS: request.num_logprobs is not None,
        PlainReason.DUMP_LOGITS: dumps_logits,
        PlainReason.PENALTIES: not request.penalties.is_neutral,
        PlainReason.LOGIT_BIAS: bool(request.logit_bias),
    }
    return next((reason for reason, is_so in holds.items() if is_so), None)
