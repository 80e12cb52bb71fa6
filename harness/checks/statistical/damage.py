"""The shape of the damage between two replies: what no rounding does, however close two scores were. Pure; it knows no score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Ids = tuple[int, ...]

MOST_LOST = 4  # tokens that are dropped or doubled at once
LEAST_REJOINED = 4  # tokens behind the damage that must be the other reply's again, for it to be no chance
LEAST_FOREIGN = 6  # tokens in a row that are another request's
LONGEST_PERIOD = 8  # tokens of what a loop repeats
LEAST_LOOPED = 12  # tokens at the end of a reply that a loop must fill, three times over at the least


@dataclass(frozen=True, slots=True)
class Pair:
    """Two replies to one request, and what the request was."""

    want: Ids
    got: Ids
    want_text: str = ""
    got_text: str = ""
    prompt: Ids = ()
    wants_json: bool = False


def damage(pair: Pair, index: int, others: Iterable[Ids], vocab_bound: int) -> str:
    """Return what is broken in the second reply from `index` on, in words; "" where nothing is.

    `others` are prompts and replies of other requests to the same process.
    """
    if index == min(len(pair.want), len(pair.got)):
        return "one reply is a beginning of the other: no token was chosen otherwise"
    outside = [token for token in pair.got if token >= vocab_bound]
    if outside:
        return f"id {outside[0]} may never be chosen"
    found = _shift(pair.want, pair.got, index)
    if not found and _is_foreign(pair, index, others):
        found = "text of another request"
    if not found and _loops(pair.got) and not _loops(pair.want):
        found = "a loop that plain's reply lacks"
    if not found and pair.wants_json and _is_json(pair.want_text) and not _is_json(pair.got_text):
        found = "broken JSON where plain's is whole"
    return found


def _shift(want: Ids, got: Ids, index: int) -> str:
    """Return how many tokens were dropped or doubled at the place; "" where the replies do not meet again behind it."""
    for size in range(1, MOST_LOST + 1):
        if _rejoins(want[index + size :], got[index:]):
            return f"{size} of plain's tokens dropped"
        if got[index : index + size] == got[max(index - size, 0) : index] and _rejoins(want[index:], got[index + size :]):
            return f"{size} tokens doubled"
    return ""


def _rejoins(left: Ids, right: Ids) -> bool:
    size = min(len(left), len(right))
    return size >= LEAST_REJOINED and left[:size] == right[:size]


def _is_foreign(pair: Pair, index: int, others: Iterable[Ids]) -> bool:
    own = {pair.prompt, pair.want}
    for begin in range(index, len(pair.got) - LEAST_FOREIGN + 1):
        run = pair.got[begin : begin + LEAST_FOREIGN]
        if any(_holds(other, run) for other in others) and not any(_holds(one, run) for one in own):
            return True
    return False


def _holds(ids: Sequence[int], run: Ids) -> bool:
    return any(tuple(ids[at : at + len(run)]) == run for at in range(len(ids) - len(run) + 1))


def _loops(ids: Ids) -> bool:
    for period in range(1, LONGEST_PERIOD + 1):
        size = max(LEAST_LOOPED, 3 * period)
        tail = ids[-size:]
        if len(tail) == size and all(token == tail[at % period] for at, token in enumerate(tail)):
            return True
    return False


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
