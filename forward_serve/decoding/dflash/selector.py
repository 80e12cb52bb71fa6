"""The candidate selector of generation 2: a walk from the anchor through a few candidates of each slot. Knows no target.

Letters of shapes: n slots behind the anchor, H hidden, V vocabulary, r numbers of a token in a codebook, k candidates of a slot.
Source: CandidateSelector of the DFlash reference (PyPI dflash 0.1.0, model.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forward_serve.decoding.interfaces import Rows

Ids = NDArray[np.intp]  # [n, k]


@dataclass(frozen=True, slots=True)
class CandidateSelector:
    """Adds to a candidate's own score how well it follows the token before it, seen through the slot's hidden row."""

    predecessors: NDArray[np.float32]  # [V, r]
    successors: NDArray[np.float32]  # [V, r]
    gate: NDArray[np.float32]  # [H, r]
    top_k: int  # candidates of one slot

    def walk(self, hidden: Rows, candidates: Ids, scores: Rows, anchor: int) -> list[int]:
        """Return the best candidate of each slot, left to right, each chosen after the one before it; ties go to the lowest id.

        `hidden` [n, H] are the slots' final-normed rows, `candidates` [n, k] ascending ids, `scores` [n, k] their own scores.
        """
        edges = self.successors[candidates] * (hidden @ self.gate)[:, None]  # [n, k, r]
        drafts: list[int] = []
        previous = anchor
        for ids, own, edge in zip(candidates, scores, edges, strict=True):
            previous = int(ids[(own + edge @ self.predecessors[previous]).argmax()])
            drafts.append(previous)
        return drafts


def best_ids(logits: Rows, k: int) -> Ids:
    """Return the ids of the k largest logits of each row of [n, V], ascending; of equal logits at the cut, the lowest ids.

    V ids where V is under k. A NaN ranks below every number.
    """
    ranked = np.fmax(logits, np.float32(-np.inf))
    num_ids = min(k, ranked.shape[-1])
    cut = np.partition(ranked, -num_ids, axis=-1)[:, -num_ids, None]
    above, level = ranked > cut, ranked == cut
    places_left = num_ids - above.sum(axis=-1, keepdims=True)
    chosen = above | (level & (level.cumsum(axis=-1) <= places_left))
    return np.nonzero(chosen)[1].reshape(len(logits), num_ids)
