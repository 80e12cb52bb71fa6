"""From final hidden states to drafts, with what decides each of them: gaps, and margins of the candidates' cut.

Generation 1 takes each slot's best id. Generation 2 cuts each slot to a few candidates and walks through them from the anchor
on, each choice weighed by the one before. It does not know the trunk. Letters: N blocks, D drafts of a block, H hidden, V ids
of the tokenizer, r rank of the selector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.draft_shape import GATE, PREDECESSORS, SUCCESSORS, DraftShape
from harness.fabricate.numerics import Floats
from harness.fabricate.scores import gaps_of

Tokens = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Choices:
    """What is drafted at every slot, and how narrowly."""

    drafts: Tokens  # [N, D]
    logits: Floats  # [N, D, V], of the target's head
    scores: Floats  # [N, D, V], what the draft is the best candidate of
    gaps: NDArray[np.float64]  # [N, D]: score of the draft minus the best other candidate's
    cuts: NDArray[np.float64]  # [N, D]: how far logits are from another set of candidates that would matter; inf = no cut

    @property
    def margins(self) -> NDArray[np.float64]:
        """The narrower of gap and cut at each slot."""
        return np.minimum(self.gaps, self.cuts)


@dataclass(frozen=True, slots=True)
class Selector:
    """Generation 2's: a candidate's score is its transformed logit and how well it follows the token before it."""

    predecessors: Floats  # [V', r], rows above V are of no id
    successors: Floats  # [V', r]
    gate: Floats  # [r, H]
    top_k: int
    multiplier: float
    cap: float | None

    @staticmethod
    def of(weights: Mapping[str, NDArray[Any]], shape: DraftShape) -> Selector | None:
        """Return the selector of a pack, None in generation 1."""
        if shape.generation_2 is None:
            return None
        return Selector(
            weights[PREDECESSORS],
            weights[SUCCESSORS],
            weights[GATE],
            shape.generation_2.selector_top_k,
            shape.output_multiplier,
            shape.final_logit_softcapping,
        )

    def transformed(self, logits: Floats) -> Floats:
        """Return logits after multiplier and soft cap."""
        scaled = logits * self.multiplier
        return scaled if self.cap is None else np.asarray(self.cap * np.tanh(scaled / self.cap))

    def edges(self, hidden: Floats, previous: Tokens, num_ids: int) -> Floats:
        """Return what the selector adds to each id [N, V] at slots with hidden rows [N, H] after tokens [N]."""
        gates = hidden @ self.gate.astype(hidden.dtype).T * self.predecessors.astype(hidden.dtype)[previous]
        return np.asarray(gates @ self.successors[:num_ids].astype(hidden.dtype).T)


def choose(
    selector: Selector | None, hidden: Floats, logits: Floats, anchors: Tokens, follow: Tokens | None = None
) -> Choices:
    """Draft for blocks with hidden rows [N, D, H], logits [N, D, V] and anchor tokens [N].

    `follow` [N, D] holds ids that a slot is taken to have said, where it is 0 or above, whatever it says.
    """
    if selector is None:
        drafts = logits.argmax(axis=-1)
        return Choices(drafts, logits, logits, gaps_of(logits, drafts), np.full(drafts.shape, np.inf))
    drafts = np.empty(logits.shape[:2], np.int64)
    scores = np.empty_like(logits)
    gaps, cuts = np.empty(drafts.shape), np.empty(drafts.shape)
    own = selector.transformed(logits)
    previous = anchors
    for slot in range(logits.shape[1]):
        scores[:, slot] = own[:, slot] + selector.edges(hidden[:, slot], previous, logits.shape[2])
        drafts[:, slot], gaps[:, slot], cuts[:, slot] = _cut_and_best(logits[:, slot], scores[:, slot], selector.top_k)
        previous = drafts[:, slot] if follow is None else np.where(follow[:, slot] < 0, drafts[:, slot], follow[:, slot])
    return Choices(drafts, logits, scores, gaps, cuts)


def _cut_and_best(logits: Floats, scores: Floats, top_k: int) -> tuple[Tokens, NDArray[np.float64], NDArray[np.float64]]:
    """Return of rows [N, V] the best candidate, its gap, and how far the cut is from mattering.

    The cut matters where the best would fall out, or where an id would come in that scores above the second-best candidate.
    """
    ordered = np.argsort(-logits, axis=-1, kind="stable")
    inside = np.zeros(logits.shape, np.bool_)
    np.put_along_axis(inside, ordered[:, :top_k], True, axis=-1)
    best = np.where(inside, scores, -np.inf).argmax(axis=-1)
    gaps = gaps_of(np.where(inside, scores, -np.inf), best)
    rows = np.arange(len(best))
    last_in, first_out = (logits[rows, ordered[:, rank]] for rank in (top_k - 1, top_k))
    dangerous = ~inside & (scores > (scores[rows, best] - gaps)[:, None])
    comes_in = last_in - np.where(dangerous, logits, -np.inf).max(axis=-1)
    return best, gaps, np.asarray(np.minimum(logits[rows, best] - first_out, comes_in), np.float64)
