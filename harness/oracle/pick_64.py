"""From the hidden rows of a block to its drafts: the best id of each slot, or in generation 2 a walk that a selector leads.

Each draft comes with its margin: the smallest change of scores, as a share of the slot's largest, that would change it. It
knows neither where rows come from nor how many drafts are used. Source: the format's page, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.oracle.arithmetic64 import Places, Readout, best, linear, margins
from harness.oracle.pack64 import Pack64, Selector64
from harness.oracle.tensors64 import Array
from harness.records.expectation import Block


def picked(pack: Pack64, readout: Readout, bound: int, rows: Array, anchor_tokens: Sequence[int]) -> tuple[Block, ...]:
    """Return the drafts of blocks [blocks, slots, H], slot 0 left out; only ids below `bound` may be drafted."""
    hidden = rows[:, 1:]
    scores = readout.scores(hidden)[..., :bound] * pack.multiplier
    if pack.softcap is not None:
        scores = pack.softcap * np.tanh(scores / pack.softcap)
    if pack.selector is None:
        return tuple(
            Block(tuple(map(int, tokens)), tuple(map(float, leads)))
            for tokens, leads in zip(best(scores), margins(scores), strict=True)
        )
    return tuple(
        selected(pack.selector, *block)
        for block in zip(scores, linear(hidden, pack.selector.projection), anchor_tokens, strict=True)
    )


def selected(selector: Selector64, scores: Array, gates: Array, anchor_token: int) -> Block:
    """Walk one block from left to right: `scores` [slots, ids], `gates` [slots, r].

    The candidates of a slot are its `top_k` best ids (of equal ones the lowest) by score alone; among them the edge from the
    token before decides.
    """
    tokens: list[int] = []
    leads: list[float] = []
    before = anchor_token
    for slot_scores, gate in zip(scores, gates, strict=True):
        edges = selector.successors[: len(slot_scores)] @ (selector.predecessors[before] * gate)
        order = np.argsort(-slot_scores, kind="stable")
        inside = np.sort(order[: selector.top_k])
        total = slot_scores + edges
        token = int(inside[best(total[inside])])
        lead = _lead(slot_scores, total, token, inside, order[selector.top_k :])
        tokens.append(token)
        leads.append(lead / max(float(np.abs(slot_scores).max()), float(np.abs(total[inside]).max())))
        before = token
    return Block(tuple(tokens), tuple(leads))


def _lead(scores: Array, total: Array, token: int, inside: Places, outside: Places) -> float:
    """Return how far the winner is from losing: to another candidate, by falling out of them, or to one that comes in.

    Exact ties do not count: equal rows give them in any arithmetic, and the lowest id wins.
    """
    leads = [total[token] - total[inside]]
    if len(outside):
        enters, wins = scores[inside].min() - scores[outside], total[token] - total[outside]
        leads += [scores[token] - scores[outside[:1]], np.maximum(enters, wins)]
    every = np.concatenate(leads)
    return float(every[every > 0].min(initial=2 * np.abs(scores).max()))
