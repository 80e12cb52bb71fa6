"""What the path of a request must have been, from its prompt and the plain reply, and for packs what they draft on that sequence.

It knows who may speculate and which oracle walks which arm; the walk itself is the oracle's. What no oracle knows stays None,
never a guess. It reads no file: what takes a model to know comes as expectations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from harness.errors import UsageError
from harness.oracle.abstain import abstains, asks_for
from harness.oracle.assisted import walk_assisted
from harness.oracle.draft_model import Spoken
from harness.oracle.lookup import trace
from harness.oracle.loop import Rules, Said, Trace
from harness.oracle.packs import BF16_MARGIN, FLOAT32_MARGIN, Journey, pack_path, path_without_taps
from harness.oracle.streamwise import Drafter, Walked, drafter_of, is_streamwise, most_drafts, walk_stream
from harness.records.expectation import Expectations, Ids
from harness.records.plan import Request, Start
from harness.records.recording import Answer, ArmFacts, Counts, Declared, Round

LOOKUP = "lookup-321"  # prompt lookup by suffixes of 3, 2, 1 tokens
DFLASH = "dflash"  # a draft pack: it drafts whenever it is asked and has the rows of every position

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
    unknown: str = ""  # why counts, rounds, their starts and last are None
    end_place: int | None = None  # where in a block an end token comes, where the rounds alone do not tell
    round_starts: tuple[int, ...] | None = None  # of each round: the index in the reply of the token that begins it


@dataclass(frozen=True, slots=True)
class Known:
    """What other answers of a run tell of a request's path."""

    spoken: Spoken = field(default_factory=dict)  # by the draft model, served alone
    beyond: Ids = ()  # tokens of the same reply behind its end, where nothing cuts it


def predict(
    start: Start,
    request: Request,
    plain: Answer,
    declared: Declared,
    expectations: Expectations | None = None,
    *,
    cached: int = 0,
    known: Known | None = None,
) -> Prediction | None:
    """Predict the path of `request` on `start` from the plain arm's answer to it.

    `cached` are the positions that the request resumes from. None where nothing can be said: no oracle for the arm, a request
    that the plain arm did not serve to its end, or a surface without token ids. Raises UsageError for an arm that names an oracle
    that does not exist.
    """
    facts = declared.facts_of(start)
    said = said_by(request, plain, start)
    is_known = facts.drafter == "none" or facts.oracle or facts.expect == "not-engaged"
    if said is None or not request.prompt_ids or not is_known:
        return None
    if facts.drafter != "none" and not declared.reports_path:
        return _of_stream(start, request, said, declared, known or Known())
    reason = NOTHING_TO_SAY if facts.drafter == "none" else abstains(request, dumps_logits=facts.dumps_logits)
    if reason is not None:
        return _walked(said, trace(request.prompt_ids, said, Rules(k=0)), "plain", facts, reason, cached)
    if facts.expect == "not-engaged":
        return Prediction("plain", facts.drafter, len(said.ids))
    if facts.oracle == LOOKUP:
        walk = trace(request.prompt_ids, said, rules_of(start, declared, int(start.parameters["k"])))
        return _walked(said, walk, "spec", facts, _reason(said, walk, silence="no-match"), cached)
    if facts.oracle == DFLASH:
        return _of_pack(start, request, said, declared, expectations, cached)
    raise UsageError(
        f"arm {start.arm}: oracle={facts.oracle!r} is not known; use {LOOKUP!r}, {DFLASH!r}, or leave it out for no prediction"
    )


def _of_stream(start: Start, request: Request, said: Said, declared: Declared, known: Known) -> Prediction | None:
    """Predict a request on a subject that names no paths: it is taken for speculative where something must have been drafted.

    None for a reply that the context ended: where drafts stop there is the subject's own affair. None too for a sampled reply that need not
    be plain's.
    """
    facts = declared.facts_of(start)
    if facts.expect == "not-engaged" or _must_abstain(request, declared.capabilities.get(facts.drafter, {})):
        return _walked(said, trace(request.prompt_ids, said, Rules(k=0)), "plain", facts, NOTHING_TO_SAY, 0)
    if not is_streamwise(facts.oracle):
        raise UsageError(f"arm {start.arm}: oracle={facts.oracle!r} is not known for a subject that names no paths")
    is_cut_by_context = said.end_token is None and not said.stopped and len(said.ids) < request.max_tokens
    if is_cut_by_context or not (request.is_greedy or facts.samples_alike):
        return None
    asked_k = start.parameters.get("k", start.parameters.get("draft_k"))
    k = most_drafts(facts.oracle, None if asked_k is None else int(asked_k))
    if not declared.first_token_outside:
        return _assisted(request, said, facts, drafter_of(facts.oracle, k, known.spoken, _ends(start, request)))
    rules = Rules(k, declared.width_of(start.arm), reserve=int(declared.reserves_token))
    path = walk_stream(request.prompt_ids, said, rules, drafter_of(facts.oracle, k, known.spoken), known.beyond)
    return None if path is None else _of_path(path, said, declared, facts)


def _of_path(path: Walked, said: Said, declared: Declared, facts: ArmFacts) -> Prediction:
    walk = path.trace
    path_taken = "spec" if walk.num_drafted else "plain"
    prediction = _walked(said, walk, path_taken, facts, NOTHING_TO_SAY, 0)
    prediction = msgspec.structs.replace(prediction, end_place=path.end_place)
    assert prediction.counts is not None
    if declared.trims_at_stop:
        return prediction
    if path.num_accepted is None:
        return msgspec.structs.replace(prediction, counts=None, unknown="what follows the end of the reply is not known")
    return msgspec.structs.replace(prediction, counts=msgspec.structs.replace(prediction.counts, accepted=path.num_accepted))


def _assisted(request: Request, said: Said, facts: ArmFacts, drafter: Drafter) -> Prediction | None:
    """Predict a request whose passes draft from the bare prompt on."""
    walk = walk_assisted(request.prompt_ids, said, drafter)
    return None if walk is None else _walked(said, walk, "spec" if walk.num_drafted else "plain", facts, NOTHING_TO_SAY, 0)


def _must_abstain(request: Request, behaviours: Mapping[str, str]) -> bool:
    return any(behaviours.get(capability) == "abstains" for capability in asks_for(request))


def _of_pack(
    start: Start, request: Request, said: Said, declared: Declared, expectations: Expectations | None, cached: int
) -> Prediction:
    """Predict a request that a pack drafts for; path and reason alone where its blocks are not known for certain."""
    facts = declared.facts_of(start)
    if cached:
        journey = Journey(request.prompt_ids, said, rules_of(start, declared, k=1))
        walk = path_without_taps(journey)
        return _walked(said, walk, "spec", facts, _reason(said, walk, silence="no-taps"), cached)
    path_only = Prediction("spec", facts.drafter, len(said.ids), reason=_reason_of_pack(said))
    pack = start.pack or ""
    drafting = expectations.drafting(start.model, pack, request.prompt_ids + said.ids) if expectations else None
    block_size = expectations.block_sizes[pack] if expectations and drafting else 2  # any, for a walk that never asks
    journey = Journey(request.prompt_ids, said, pack_rules(start, declared, block_size))
    path = pack_path(journey, drafting.blocks if drafting else {})
    if path is None:
        lacking = "what the pack drafts on this reply is not known" if expectations else "no expectations came with the run"
        return msgspec.structs.replace(path_only, unknown=lacking)
    lead, needed = (path.deciding_margin, BF16_MARGIN) if facts.device else (path.margin, FLOAT32_MARGIN)
    if lead < needed:
        too_small = f"a draft leads by no more than {lead:.1e} of its score, {needed:.1e} is needed to be certain"
        return msgspec.structs.replace(path_only, unknown=too_small)
    return _walked(said, path.trace, "spec", facts, _reason(said, path.trace, silence="no-taps"), cached)


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


def rules_of(start: Start, declared: Declared, k: int) -> Rules:
    """Return the rules that a start walks by, with at most `k` drafts a round."""
    return Rules(
        k=k,
        width=declared.width_of(start.arm),
        fallback_below=float(start.parameters.get("fallback_below", 0)),
        fallback_window=int(start.parameters.get("fallback_window", 3)),
    )


def pack_rules(start: Start, declared: Declared, block_size: int) -> Rules:
    """Return the rules of a start with a pack: it drafts a block without its first slot, or fewer where the start says so."""
    parameters = start.parameters
    return rules_of(start, declared, int(parameters.get("draft_k", parameters.get("k", block_size - 1))))


def _walked(said: Said, walk: Trace, path: str, facts: ArmFacts, reason: str, cached: int) -> Prediction:
    counts = Counts(
        path=path,
        drafter=facts.drafter,
        rounds=len(walk.rounds),
        drafted=walk.num_drafted,
        accepted=walk.num_accepted,
        plain=walk.num_plain,
        tokens=len(said.ids),
        cached=cached,
        fallback=walk.fallback,
        reason=reason,
    )
    rounds = tuple(Round(step.drafts, step.accepted) for step in walk.rounds)
    starts = tuple(step.index for step in walk.rounds)
    return Prediction(path, facts.drafter, len(said.ids), reason, counts, rounds, walk.last, round_starts=starts)


def _ends(start: Start, request: Request) -> Ids:
    """Return the end tokens that a twin's name sets (`tiny+eos=5.7`), none where the request ignores them."""
    if (request.body or {}).get("ignore_eos"):
        return ()
    named = [part.removeprefix("eos=") for part in start.model.split("+") if part.startswith("eos=")]
    return tuple(int(token) for tokens in named for token in tokens.split("."))


def _budget(request: Request, start: Start) -> int:
    """Return the tokens allowed: what was asked, within the context that a twin's name may set (`tiny+context=28`)."""
    limits = [int(part.removeprefix("context=")) for part in start.model.split("+") if part.startswith("context=")]
    return min([request.max_tokens, *(limit - len(request.prompt_ids) for limit in limits)])


def _reason(said: Said, walk: Trace, silence: str) -> str:
    """Return the reason of a speculative path: why nothing was drafted (a head that was asked says `silence`), or "-"."""
    if walk.num_drafted:
        return NOTHING_TO_SAY
    return silence if walk.was_asked else _never_asked(said)


def _reason_of_pack(said: Said) -> str:
    """Return the reason where a head answers whenever it is asked: it is asked if the first token ends nothing."""
    asked = len(said.ids) > 1 or (len(said.ids) == 1 and said.end_token is not None)
    return NOTHING_TO_SAY if asked else _never_asked(said)


def _never_asked(said: Said) -> str:
    return "ended" if said.stopped or said.end_token is not None else "budget"
