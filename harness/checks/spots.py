"""Where in its path a reply's token was committed: by which round, at which slot, or by a plain step.

A subject lists its rounds and counts its plain steps, but does not say where between the rounds those lie. So the rounds are laid
along the reply in every way in which their accepted drafts are what the reply holds. It knows neither plans nor laws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.records.divergence import Spot
from harness.records.expectation import Ids
from harness.records.recording import Round


def spots_of(ids: Ids, rounds: Sequence[Round], num_plain: int | None, index: int) -> set[Spot]:
    """Return every spot at which the token at `index` can have been committed; none where the rounds do not fit the reply.

    `num_plain` are the plain steps that were counted, None where that was not told. All tokens but at most one were run by a
    pass.
    """
    spare = len(ids) - sum(one.num_accepted + 1 for one in rounds)
    most_plain = spare if num_plain is None else num_plain
    if spare < 0 or (num_plain is not None and spare - num_plain not in (0, 1)):
        return set()
    starts = _starts(ids, rounds, most_plain)
    if starts is None:
        return set()
    return {*_in_rounds(starts, rounds, index), *([Spot(None)] if _may_be_plain(starts, rounds, index, len(ids)) else [])}


def _starts(ids: Ids, rounds: Sequence[Round], most_plain: int) -> list[list[int]] | None:
    """Return where each round can begin, in ways that leave all others a place; None where there is no such way."""
    forward: list[list[int]] = []
    earliest = delivered = 0
    for one in rounds:
        places = [place for place in range(earliest, delivered + most_plain + 1) if _fits(ids, one, place)]
        if not places:
            return None
        forward.append(places)
        earliest = places[0] + one.num_accepted + 1
        delivered += one.num_accepted + 1
    latest = len(ids)
    for at in reversed(range(len(rounds))):
        size = rounds[at].num_accepted + 1
        forward[at] = [place for place in forward[at] if place + size <= latest]
        if not forward[at]:
            return None
        latest = forward[at][-1]
    return forward


def _fits(ids: Ids, one: Round, place: int) -> bool:
    accepted = one.drafted_ids[: one.num_accepted]
    return len(accepted) == one.num_accepted and ids[place + 1 : place + 1 + one.num_accepted] == accepted


def _in_rounds(starts: Sequence[Sequence[int]], rounds: Sequence[Round], index: int) -> Iterator[Spot]:
    for number, (places, one) in enumerate(zip(starts, rounds, strict=True)):
        yield from (Spot(number, index - place) for place in places if place <= index <= place + one.num_accepted)


def _may_be_plain(starts: Sequence[Sequence[int]], rounds: Sequence[Round], index: int, num_ids: int) -> bool:
    """Whether the token can lie between two rounds, before the first or behind the last."""
    ends = [0, *(places[0] + one.num_accepted + 1 for places, one in zip(starts, rounds, strict=True))]
    begins = [*(places[-1] for places in starts), num_ids]
    return any(end <= index < begin for end, begin in zip(ends, begins, strict=True))
