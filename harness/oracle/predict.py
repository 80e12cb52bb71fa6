"""What the path of a request must have been, from its prompt and the plain reply alone. Shares nothing with the engine.

It knows who may speculate and which oracle walks which arm; the walk itself is the oracle's. What no oracle knows stays None,
never a guess.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from harness.errors import UsageError
from harness.oracle.lookup import trace
from harness.oracle.loop import Rules, Said, Trace
from harness.records.plan import Request, Start
from harness.records.recording import Answer, ArmFacts, Counts, Declared, Round

LOOKUP = "lookup-321"  # prompt lookup by suffixes of 3, 2, 1 tokens
DFLASH = "dflash"  # a draft pack: it drafts whenever it is asked

NOTHING_TO_SAY = "-"


class Prediction(msgspec.Struct, frozen=True):
    """The predicted path of one request. None = no oracle knows it."""

    path: str  # spec or plain
    drafter: str
    tokens: int  # counted tokens of the reply
    reason: str | None = None
    counts: Counts | None = None
    rounds: tuple[Round, ...] | None = None
    last: int | None = None  # 1 if the last counted token was not run through the model


def predict(start: Start, request: Request, plain: Answer, declared: Declared) -> Prediction | None:
    """Predict the path of `request` on `start` from the plain arm's answer to it.

    None where nothing can be said: no oracle for the arm, a request that the plain arm did not serve to its end, or a surface
    without token ids. Raises UsageError for an arm that names an oracle that does not exist.
    """
    facts = declared.arms[start.arm]
    said = said_by(request, plain, start)
    is_known = facts.drafter == "none" or facts.oracle or facts.expect == "not-engaged"
    if said is None or not request.prompt_ids or not is_known:
        return None
    reason = NOTHING_TO_SAY if facts.drafter == "none" else abstains(request)
    if reason is not None:
        return _walked(said, trace(request.prompt_ids, said, Rules(k=0)), "plain", facts, reason)
    if facts.expect == "not-engaged":
        return Prediction("plain", facts.drafter, len(said.ids))
    if facts.oracle == LOOKUP:
        walk = trace(request.prompt_ids, said, _lookup_rules(start, declared))
        return _walked(said, walk, "spec", facts, _silence(said, walk))
    if facts.oracle == DFLASH:
        return Prediction("spec", facts.drafter, len(said.ids), reason=_silence_of_pack(said))
    raise UsageError(
        f"arm {start.arm}: oracle={facts.oracle!r} is not known; use {LOOKUP!r}, {DFLASH!r}, or leave it out for no prediction"
    )


def said_by(request: Request, plain: Answer, start: Start) -> Said | None:
    """Read how the plain arm's reply ended; None where it was not served to its end or does not say."""
    reply = plain.reply
    if plain.status != 200 or plain.failure or reply is None or reply.ids is None or request.leave_after_chunks is not None:
        return None
    if reply.finish_reason == "length":
        return Said(reply.ids, budget=len(reply.ids))
    budget = _budget(request, start)
    if reply.finish_reason == "stop" and isinstance(reply.stop_reason, int):
        return Said(reply.ids, budget, end_token=reply.stop_reason)
    if reply.finish_reason == "stop" and isinstance(reply.stop_reason, str):
        return Said(reply.ids, budget, stopped=True)
    return None


def abstains(request: Request) -> str | None:
    """Return why a server with a drafter must not speculate on this request: the first reason that holds; None if it must."""
    return next((reason for reason, holds in _REASONS if holds(request)), None)


def _walked(said: Said, walk: Trace, path: str, facts: ArmFacts, reason: str) -> Prediction:
    counts = Counts(
        path=path,
        drafter=facts.drafter,
        rounds=len(walk.rounds),
        drafted=walk.num_drafted,
        accepted=walk.num_accepted,
        plain=walk.num_plain,
        tokens=len(said.ids),
        cached=0,
        fallback=walk.fallback,
        reason=reason,
    )
    rounds = tuple(Round(step.drafts, step.accepted) for step in walk.rounds)
    return Prediction(path, facts.drafter, len(said.ids), reason, counts, rounds, walk.last)


def _lookup_rules(start: Start, declared: Declared) -> Rules:
    parameters = start.parameters
    return Rules(
        k=int(parameters["k"]),
        width=declared.width,
        fallback_below=float(parameters.get("fallback_below", 0)),
        fallback_window=int(parameters.get("fallback_window", 3)),
    )


def _budget(request: Request, start: Start) -> int:
    """Return the tokens allowed: what was asked, within the context that a twin's name may set (`tiny+context=28`)."""
    limits = [int(part.removeprefix("context=")) for part in start.model.split("+") if part.startswith("context=")]
    return min([request.max_tokens, *(limit - len(request.prompt_ids) for limit in limits)])


def _silence(said: Said, walk: Trace) -> str:
    """Return the reason of a speculative path: why nothing was drafted, or that there is nothing to say."""
    if walk.num_drafted:
        return NOTHING_TO_SAY
    if any(step.asked for step in walk.steps):
        return "no-match"
    return _never_asked(said)


def _silence_of_pack(said: Said) -> str:
    """Return the reason where a head answers whenever it is asked: it is asked if the first token ends nothing."""
    asked = len(said.ids) > 1 or (len(said.ids) == 1 and said.end_token is not None)
    return NOTHING_TO_SAY if asked else _never_asked(said)


def _never_asked(said: Said) -> str:
    return "ended" if said.stopped or said.end_token is not None else "budget"


def _is_sampled(request: Request) -> bool:
    return not request.is_greedy


_REASONS: tuple[tuple[str, Callable[[Request], bool]], ...] = (("sampled", _is_sampled),)
