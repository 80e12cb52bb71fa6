"""The path of a reply under drafters that see tokens alone, as llama.cpp walks it. It judges nothing.

A round always ends with a token of the base's own, so drafts leave one token of the budget to it. The whole accepted part of a block is
counted before its tokens are looked at: what a stop or an end token cuts off stays in `accepted`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.oracle import assisted, draft_model, ngram_simple
from harness.oracle.draft_model import NotAskedError, Spoken
from harness.oracle.loop import Asked, Proposal, Rules, Said, Trace, num_equal, walked
from harness.records.expectation import Ids

NGRAM_SIMPLE, DRAFT_MODEL, PROMPT_LOOKUP = "ngram-simple", "draft-model", "prompt-lookup"
_NAME = re.compile(
    rf"({NGRAM_SIMPLE}|{DRAFT_MODEL}|{PROMPT_LOOKUP})-(\d+)"
)  # the tokens that are looked for; drafts where a start names none

Drafter = Callable[[Ids, int], Ids]  # stream, room -> drafts


@dataclass(frozen=True, slots=True)
class Walked:
    """A whole path, and what the subject counts as accepted on it."""

    trace: Trace
    num_accepted: int | None  # None: what is behind a stop or an end token is not known
    end_place: int  # where in a block an end token came: 0 = the base's own token, j = the j-th draft


def is_streamwise(oracle: str) -> bool:
    """Whether an arm's oracle is one of these: "ngram-simple-2", "draft-model-4", "prompt-lookup-2"."""
    return _NAME.fullmatch(oracle) is not None


def drafts_end_tokens(oracle: str) -> bool:
    """Whether an end token may be among the drafts of an arm: prompt lookup ends before one."""
    return not oracle.startswith(PROMPT_LOOKUP)


def most_drafts(oracle: str, k: int | None) -> int:
    """Return the most drafts of a round: what the start names, else what the oracle's own name does. ValueError without either."""
    kind, number = _parsed(oracle)
    if k is None and kind != DRAFT_MODEL:
        raise ValueError(f"oracle={oracle}: the start names no k")
    return int(number) if k is None else k


def drafter_of(oracle: str, k: int, spoken: Spoken, ends: Ids = ()) -> Drafter:
    """Return the drafter that an oracle knows; `ends` are end tokens, which some do not draft beyond."""
    kind, number = _parsed(oracle)
    if kind == NGRAM_SIMPLE:
        return lambda stream, room: ngram_simple.propose(stream, number, k)[:room]
    if kind == PROMPT_LOOKUP:
        return lambda stream, _room: assisted.look_up(stream, number, k, ends)
    return lambda stream, room: assisted.up_to_end(draft_model.propose(spoken, stream, min(room, k)), ends)


def walk_stream(prompt: Ids, said: Said, rules: Rules, drafter: Drafter, beyond: Ids = ()) -> Walked | None:
    """Return the path of a reply; None where the drafter does not know what it would say somewhere on it.

    `beyond`: tokens of the same reply that come behind its end where nothing cuts it.
    """

    def head(asked: Asked) -> Proposal:
        return Proposal(drafter((*prompt, *said.ids[: asked.num_emitted]), asked.room))

    try:
        trace = walked(said, rules, head)
    except NotAskedError:
        return None
    return Walked(trace, _num_matching(trace, said, beyond), _end_place(trace, said))


def _num_matching(trace: Trace, said: Said, beyond: Ids) -> int | None:
    """Return how many drafts matched, those behind the end of the reply among them; None where that cannot be told."""
    if not trace.rounds:
        return 0
    last = trace.rounds[-1]
    place = last.index + 1
    if place + last.accepted < len(said.ids):
        return trace.num_accepted  # it ended on a token that the reply goes on behind
    coming = said.ids[place:] + (() if said.end_token is None else (said.end_token,)) + beyond
    matching = num_equal(last.drafts, coming)
    if matching == len(coming) < len(last.drafts):
        return None
    return trace.num_accepted - last.accepted + matching


def _end_place(trace: Trace, said: Said) -> int:
    """Return the place of the end token: in the last round, if that is what the last token before it was run with."""
    if said.end_token is None or not trace.rounds or not trace.steps[-1].drafts:
        return 0
    last = trace.steps[-1]
    ends_it = last.index + 1 + last.accepted == len(said.ids)
    return last.accepted + 1 if ends_it and last.drafts[last.accepted : last.accepted + 1] == (said.end_token,) else 0


def _parsed(oracle: str) -> tuple[str, int]:
    found = _NAME.fullmatch(oracle)
    assert found is not None, oracle
    return found[1], int(found[2])
