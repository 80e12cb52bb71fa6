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
from harness.fabricate.scores import runners_up

Tokens = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Choices:
    """What is drafted at every slot, and out of what."""

    drafts: Tokens  # [N, D]
    logits: Floats  # [N, D, V], of the target's head
    scores: Floats  # [N, D, V], what the draft is the best candidate of
    inside: NDArray[np.bool_]  # [N, D, V]: the candidates

    @property
    def seconds(self) -> Tokens:
        """The next best candidates [N, D]."""
        weighed = np.where(self.inside, self.scores, -np.inf)
        return runners_up(weighed, self.drafts, weighed.shape[-1])

    def beaten(self) -> Floats:
        """Return score of the draft minus score of each other id, [N, D, V]; inf at the draft itself."""
        margins = np.take_along_axis(self.scores, self.drafts[..., None], axis=-1) - self.scores
        np.put_along_axis(margins, self.drafts[..., None], np.inf, axis=-1)
        return np.asarray(margins)

    def behind(self, unit: Floats | float = 1.0) -> Floats:
        """Return how many units each id's logit is outside the cut, [N, D, V]; -inf for candidates.

        The unit of two logits is the larger one of theirs.
        """
        if self.inside.all():
            return np.full(self.logits.shape, -np.inf)
        units = np.broadcast_to(unit, self.logits.shape)
        candidates = np.argsort(~self.inside, axis=-1, kind="stable")[..., : int(self.inside.sum(axis=-1).max())]
        if np.ndim(unit) == 0:  # the lowest candidate is the nearest
            candidates = np.where(self.inside, self.logits, np.inf).argmin(axis=-1)[..., None]
        nearest = np.full(self.logits.shape, np.inf)
        for place in range(candidates.shape[-1]):
            at = candidates[..., place, None]
            ahead = np.take_along_axis(self.logits, at, axis=-1) - self.logits
            nearest = np.minimum(nearest, ahead / np.maximum(units, np.take_along_axis(units, at, axis=-1)))
        return np.where(self.inside, -np.inf, nearest)

    def stays_in(self, unit: Floats | float = 1.0) -> Floats:
        """Return how many units the draft's logit is inside the cut, [N, D]; inf where nothing is cut. Units as in `behind`."""
        units = np.broadcast_to(unit, self.logits.shape)
        own, own_unit = (np.take_along_axis(one, self.drafts[..., None], axis=-1) for one in (self.logits, units))
        ahead = (own - self.logits) / np.maximum(units, own_unit)
        return np.asarray(np.where(self.inside, np.inf, ahead).min(axis=-1))

    def lead(self) -> Floats:
        """Return how far another id has the best logit, [N, D]; negative where the draft has it."""
        own = np.take_along_axis(self.logits, self.drafts[..., None], axis=-1)
        return np.asarray(np.where(np.isinf(self.beaten()), -np.inf, self.logits).max(axis=-1) - own[..., 0])

    def margins(self, score_unit: Floats | float = 1.0, logit_unit: Floats | float = 1.0) -> Floats:
        """Return by how many units each draft wins [N, D]; units of scores and of logits [..., V] may vary.

        An id outside the cut is kept from winning by its score or by the cut; what holds it farther off counts.
        """
        units = np.broadcast_to(score_unit, self.scores.shape)
        units = np.maximum(units, np.take_along_axis(units, self.drafts[..., None], axis=-1))
        held_off = np.maximum(self.beaten() / units, self.behind(logit_unit)).min(axis=-1)
        return np.asarray(np.minimum(held_off, self.stays_in(logit_unit)))


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
        scaled = np.asarray(logits * self.multiplier)
        return scaled if self.cap is None else np.asarray(self.cap * np.tanh(scaled / self.cap))

    def edges(self, hidden: Floats, previous: Tokens, num_ids: int) -> Floats:
        """Return what the selector adds to each id [N, V] at slots with hidden rows [N, H] after tokens [N]."""
        gates = hidden @ self.gate.astype(hidden.dtype).T * self.predecessors.astype(hidden.dtype)[previous]
        return np.asarray(gates @ self.successors[:num_ids].astype(hidden.dtype).T)


def choose(selector: Selector | None, hidden: Floats, logits: Floats, anchors: Tokens, follow: Tokens | None = None) -> Choices:
    """Draft for blocks with hidden rows [N, D, H], logits [N, D, V] and anchor tokens [N].

    `follow` [N, D] holds ids that a slot is taken to have said, where it is 0 or above, whatever it says.
    """
    if selector is None:
        return Choices(logits.argmax(axis=-1), logits, logits, np.ones(logits.shape, np.bool_))
    drafts = np.empty(logits.shape[:2], np.int64)
    scores = selector.transformed(logits)
    inside = np.zeros(logits.shape, np.bool_)
    np.put_along_axis(inside, np.argsort(-logits, axis=-1, kind="stable")[..., : selector.top_k], True, axis=-1)
    previous = anchors
    for slot in range(logits.shape[1]):
        scores[:, slot] += selector.edges(hidden[:, slot], previous, logits.shape[2])
        drafts[:, slot] = np.where(inside[:, slot], scores[:, slot], -np.inf).argmax(axis=-1)
        previous = drafts[:, slot] if follow is None else np.where(follow[:, slot] < 0, drafts[:, slot], follow[:, slot])
    return Choices(drafts, logits, scores, inside)
