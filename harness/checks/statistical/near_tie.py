"""Near-tie or fault: what a reply that differs from plain's is, on a subject whose choices are not certified. Pure rules over observations.

Two passes of one model over the same tokens, in batches of other shapes, round otherwise: a choice whose scores are closer than that
may fall either way. Everything else is a fault. It knows no request and no recording.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Ids = tuple[int, ...]
Scores = Mapping[str, float]  # logprobs of one row's best tokens, by their text


class Kind(enum.StrEnum):
    """What becomes of a pair of replies."""

    EQUAL = "EQUAL"
    NEAR_TIE = "NEAR-TIE"
    FAULT = "FAULT"
    VOID = "VOID"  # its own precondition did not occur, or what is needed to tell was not answered
    UNSTABLE = "UNSTABLE"  # an arm differs from itself


@dataclass(frozen=True, slots=True)
class Band:
    """How far the shape of a batch moves scores of one model, by its plain arm alone."""

    width: float  # logits: how far a gap between two tokens may move
    gaps: tuple[float, ...]  # between best and second at every row that was looked at, sorted
    num_scores: int  # scores that were compared

    def rank(self, gap: float) -> int:
        """Return how many of the plain arm's own gaps are smaller than this one."""
        return sum(one < gap for one in self.gaps)


@dataclass(frozen=True, slots=True)
class Observed:
    """All that was seen of one pair of replies. Ids are None where a request was not served."""

    want: Ids
    got: Ids
    index: int | None  # of the first token that differs; None if none does
    damage: str  # its shape, in words, where that alone makes it a fault
    num_drafted: int | None  # for the reply in question; None of a subject that does not say
    plain_again: tuple[Ids | None, ...]  # of fresh servers
    drafting_again: tuple[Ids | None, ...]
    histories: Mapping[str, Ids | None]  # the drafting arm's reply after and beside other requests, by what came before
    remembers: bool  # its drafter learns, so that its passes' shapes hang on what came before
    is_greedy: bool
    top_gap: float | None  # between plain's best and second score at the place
    nudge_gap: float | None  # the least change of the two tokens' distance at which plain says the other one; None = none did
    forced: tuple[float | None, ...]  # by token of the reply: how far below what plain would choose it lies; None = not known


@dataclass(frozen=True, slots=True)
class Classified:
    """What a pair is, why, and the sizes that tell."""

    kind: Kind
    why: str
    gap: float | None = None
    worst_forced: float | None = None


def classify(seen: Observed, band: Band | None) -> Classified:
    """Apply the rules in their order: unstable, damage, void, history, ties, gaps, teacher-forcing. A near-tie passes them all."""
    if seen.index is None:
        return Classified(Kind.EQUAL, "every token is plain's")
    for rule in (_unstable, _broken, _void, _of_history, _of_tie):
        found = rule(seen)
        if found is not None:
            return found
    if band is None:
        return Classified(Kind.VOID, "no plain replies told how far a batch's shape moves scores")
    return _by_gap(seen, band)


def _void(seen: Observed) -> Classified | None:
    if seen.num_drafted == 0:
        return Classified(Kind.VOID, "nothing was drafted for it, so that no verify pass can have moved a score")
    answers = (*seen.plain_again, *seen.drafting_again, *seen.histories.values())
    if not seen.plain_again or not seen.drafting_again or any(one is None for one in answers):
        return Classified(Kind.VOID, "it could not be asked again of fresh servers")
    return None


def _unstable(seen: Observed) -> Classified | None:
    for arm, replies in (("plain", seen.plain_again), ("the drafting arm", seen.drafting_again)):
        if len({one for one in replies if one is not None}) > 1:
            return Classified(Kind.UNSTABLE, f"{arm} answers otherwise from one fresh server to the next")
    return None


def _broken(seen: Observed) -> Classified | None:
    return Classified(Kind.FAULT, seen.damage) if seen.damage else None


def _of_history(seen: Observed) -> Classified | None:
    """History may not matter, but to a drafter that learns: its replies fall one way or the other, and no third."""
    if seen.plain_again[0] != seen.want:
        return Classified(Kind.FAULT, "a fresh plain server does not give plain's reply: it hangs on what was asked before")
    allowed = {seen.got, seen.want} if seen.remembers else {seen.got}
    for what, reply in {"on a fresh server": seen.drafting_again[0], **seen.histories}.items():
        if reply not in allowed:
            return Classified(Kind.FAULT, f"another reply {what}: it hangs on what was asked before")
    return None


def _of_tie(seen: Observed) -> Classified | None:
    if seen.is_greedy and seen.top_gap == 0:
        return Classified(Kind.FAULT, "plain's two best scores are equal to the bit: they must resolve alike", gap=0.0)
    return None


def _by_gap(seen: Observed, band: Band) -> Classified:
    assert seen.index is not None
    gap, known = seen.nudge_gap, [one for one in seen.forced if one is not None]
    if gap is not None and seen.is_greedy:
        gap = seen.top_gap  # exactly: the other token is the runner-up
    worst = max(known, default=None)
    if seen.top_gap is None:
        return Classified(Kind.VOID, "plain gave no scores for the place", gap)
    if gap is None:
        why = f"plain does not say {seen.got[seen.index]} there however its scores are nudged: it is no runner-up by a little"
        return Classified(Kind.FAULT, why, None, worst)
    if gap > band.width:
        return Classified(Kind.FAULT, f"plain's choice leads by {gap:.2g}, and no batch's shape moves that far", gap, worst)
    if worst is None and seen.forced:
        return Classified(Kind.VOID, "plain scored no token of the reply", gap)
    if worst is not None and worst > band.width:
        return Classified(Kind.FAULT, f"a token of the reply lies {worst:.2g} below what plain may choose there", gap, worst)
    return Classified(
        Kind.NEAR_TIE, "plain says the same with scores moved by no more than a batch's shape moves them", gap, worst
    )


def calibrated(rows: Iterable[tuple[Scores, Scores]]) -> Band | None:
    """Return the band of a model from rows of its plain arm, each scored in batches of two shapes; None without any row.

    A gap between two tokens can move by twice what one score moves.
    """
    moves, gaps = [], []
    for left, right in rows:
        moves += [abs(left[token] - right[token]) for token in left.keys() & right.keys()]
        if (gap := top_gap(left)) is not None:
            gaps.append(gap)
    return Band(2 * max(moves), tuple(sorted(gaps)), len(moves)) if moves else None


def top_gap(scores: Scores) -> float | None:
    """Return how far the best score of a row leads; None of a row that shows fewer than two."""
    best: Sequence[float] = sorted(scores.values(), reverse=True)[:2]
    return best[0] - best[1] if len(best) == 2 else None
