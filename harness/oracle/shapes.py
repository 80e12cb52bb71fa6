"""What the rounds of a reply show of accept lengths: which occur, which follow each other, and where in the reply. Words alone.

It knows neither who made the rounds nor what they should be: a plan is chosen by these words, and a subject is held to them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from itertools import pairwise

from harness.records.recording import Round


class Edge(enum.StrEnum):
    """What an accepted draft ended."""

    NONE = ""
    BUDGET = "an accepted draft spends the budget"
    STOP = "an accepted draft completes a stop"


def shapes(rounds: Sequence[Round], k: int, edge: Edge) -> frozenset[str]:
    """Return all that the rounds of one reply show, of a drafter that proposes at most `k`."""
    lengths = {_length(one.num_accepted, k) for one in rounds if len(one.drafted_ids) == k}
    turns = {f"{left.num_accepted} accepted, then {right.num_accepted}" for left, right in pairwise(rounds)}
    places = {_place("first", rounds[0]), _place("last", rounds[-1])} if rounds else set()
    return frozenset({*lengths, *turns, *places, *([edge.value] if edge else [])})


def required(k: int) -> tuple[str, ...]:
    """Return what a plan must promise of a start that proposes at most `k`: every length, and each kind of place."""
    parts = ("none", "a part", "all") if k > 1 else ("none", "all")
    places = [f"the first round accepts {part}" for part in parts] + [f"the last round accepts {part}" for part in parts]
    return (*(_length(accepted, k) for accepted in range(k + 1)), *places, Edge.BUDGET.value, Edge.STOP.value)


def _length(accepted: int, k: int) -> str:
    return f"{accepted} of {k} accepted"


def _place(where: str, one: Round) -> str:
    part = "none" if one.num_accepted == 0 else "all" if one.num_accepted == len(one.drafted_ids) else "a part"
    return f"the {where} round accepts {part}"
