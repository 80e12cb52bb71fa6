"""Prompt lookup over a reply that is already known: enough to choose streams, not a predictor of any engine.

A stream is text here, one character an id, so that finding an n-gram is `str.rfind`. The rounds are those of a greedy loop:
one token, then at most k drafts that followed the latest earlier occurrence of the last 3, else 2, else 1 tokens. Variants
of the rule that engines get wrong are here too, so that streams can be chosen on which they show.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LONGEST_SUFFIX = 3
MOST_DRAFTS = 15


class Rule(enum.Enum):
    """The rule, and the ways to get it wrong that plans should be able to see."""

    RIGHT = "latest occurrence of the longest suffix"
    EARLIEST = "earliest occurrence"
    SHORT_FIRST = "2-gram before 3-gram"
    REJECTED_KEPT = "rejected drafts stay in the index"


@dataclass(frozen=True, slots=True)
class Round:
    """One step of the loop: the drafts proposed after `emitted` tokens, and how many of them the reply confirms."""

    emitted: int
    drafts: str
    accepted: int


def text_of(ids: Sequence[int]) -> str:
    """Return ids as text, one character an id."""
    return "".join(map(chr, ids))


def propose(stream: str, limit: int, rule: Rule = Rule.RIGHT, ghosts: Sequence[str] = ()) -> str:
    """Return at most `limit` ids that followed an earlier occurrence of the stream's end; "" when it has none.

    `ghosts` are streams as they were with drafts that were rejected later; only REJECTED_KEPT looks at them.
    """
    sizes = (2, 3, 1) if rule is Rule.SHORT_FIRST else range(LONGEST_SUFFIX, 0, -1)
    find = str.find if rule is Rule.EARLIEST else str.rfind
    for size in sizes:
        suffix = stream[-size:]
        at = find(stream, suffix, 0, len(stream) - 1)
        if rule is Rule.REJECTED_KEPT:
            at = max([at, *(ghost.rfind(suffix, 0, len(stream) - 1) for ghost in ghosts)])
        if at >= 0:
            return stream[at + size : at + size + limit]
    return ""


def rounds(prompt: str, reply: str, k: int, rule: Rule = Rule.RIGHT) -> Iterator[Round]:
    """Yield the steps of the loop that says `reply` after `prompt`; a step without drafts is a plain one."""
    emitted = 0
    ghosts: list[str] = []
    while emitted < len(reply):
        emitted += 1
        limit = min(k, MOST_DRAFTS, len(reply) - emitted)
        if limit == 0:
            return
        stream = prompt + reply[:emitted]
        drafts = propose(stream, limit, rule, ghosts)
        accepted = common_prefix(drafts, reply[emitted:])
        yield Round(emitted, drafts, accepted)
        if accepted < len(drafts):
            ghosts.append(stream + drafts)
        emitted += accepted


def common_prefix(left: str, right: str) -> int:
    """Return how many leading characters are equal."""
    for count, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return count
    return min(len(left), len(right))


def accept_lengths(prompt: str, reply: str, k: int) -> list[int]:
    """Return the accept length of each round that proposed something."""
    return [one.accepted for one in rounds(prompt, reply, k) if one.drafts]


def shows(prompt: str, reply: str, k: int, rule: Rule) -> bool:
    """Whether a wrong rule proposes other ids than the right one somewhere in this reply."""
    return list(rounds(prompt, reply, k, rule)) != list(rounds(prompt, reply, k))


def first_shown(prompt: str, reply: str, k: int, rule: Rule) -> int | None:
    """Return the first round, from 0 among those that draft, in which a wrong rule proposes other ids; None = in none."""
    right, wrong = ([one for one in rounds(prompt, reply, k, kind) if one.drafts] for kind in (Rule.RIGHT, rule))
    for place, (one, other) in enumerate(zip(right, wrong, strict=False)):
        if one != other:
            return place
    return None if len(right) == len(wrong) else min(len(right), len(wrong))
