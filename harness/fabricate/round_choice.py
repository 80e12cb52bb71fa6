"""From a block's hidden rows to drafts as an engine finds them, in small steps that faults (choice_faults.py) replace.

A second way to compute what choice.py computes. Letters: R rounds, D drafts of a block, H hidden, V' rows of the head.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.draft_shape import GATE, PREDECESSORS, SUCCESSORS, DraftShape
from harness.fabricate.rounds import Rows
from harness.fabricate.transformer import Weights

Ids = NDArray[np.int64]


class RoundChoice:
    """The choice of a pack over a target's head."""

    def __init__(self, weights: Weights, shape: DraftShape, head: Rows, vocab: int) -> None:
        self.weights, self.shape, self.head, self.vocab = weights, shape, head, vocab

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether a fault could show on such a pack, with streams of so many positions."""
        del shape, positions
        return True

    def drafts(self, hidden: Rows, anchors: Ids) -> Ids:
        """Return the drafts [R, D] of blocks with hidden rows [R, D + 1, H], the anchors' own slots included."""
        logits = hidden @ self.head[: self._bound()].T
        if self.shape.generation_2 is None:
            return np.asarray(logits[:, 1:].argmax(axis=-1), np.int64)
        drafts = np.empty((len(anchors), hidden.shape[1] - 1), np.int64)
        previous = anchors
        for slot in range(1, hidden.shape[1]):
            gates = self._gates(hidden, slot)
            inside = self._inside(logits[:, slot])
            scores = self._scores(self._transformed(logits[:, slot]), self._edges(gates, previous))
            drafts[:, slot - 1] = np.where(inside, scores, -np.inf).argmax(axis=-1)
            previous = self._followed(drafts[:, slot - 1], logits[:, slot], anchors)
        return drafts

    def _bound(self) -> int:
        return self.vocab

    def _transformed(self, logits: Rows) -> Rows:
        return self._capped(logits * self.shape.output_multiplier)

    def _capped(self, logits: Rows) -> Rows:
        cap = self.shape.final_logit_softcapping
        return logits if cap is None else cap * np.tanh(logits / cap)

    def _scores(self, own: Rows, edges: Rows) -> Rows:
        return own + edges

    def _gates(self, hidden: Rows, slot: int) -> Rows:
        return hidden[:, slot] @ self.weights[GATE].T

    def _codebooks(self) -> tuple[Rows, Rows]:
        return self.weights[PREDECESSORS], self.weights[SUCCESSORS]

    def _edges(self, gates: Rows, previous: Ids) -> Rows:
        before, after = self._codebooks()
        return (before[previous] * gates) @ after[: self._bound()].T

    def _num_candidates(self) -> int:
        assert self.shape.generation_2 is not None
        return self.shape.generation_2.selector_top_k

    def _inside(self, logits: Rows) -> NDArray[np.bool_]:
        """Return which ids are candidates [R, V]: those with fewer than k ids before them, lower ids first among equals."""
        ranks = np.argsort(np.argsort(-logits, axis=-1, kind="stable"), axis=-1, kind="stable")
        return np.asarray(ranks < self._num_candidates())

    def _followed(self, drafts: Ids, logits: Rows, anchors: Ids) -> Ids:
        """Return the token that the next slot follows [R]."""
        del logits, anchors
        return drafts
