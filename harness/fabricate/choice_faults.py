"""Faults that a reader of packs could have behind its trunk. Each is a `RoundChoice` with a step done wrongly."""

# ruff: noqa: ARG002  (an override takes what the step that it replaces takes)

from __future__ import annotations

import numpy as np

from harness.fabricate.draft_shape import DraftShape
from harness.fabricate.round_choice import Ids, RoundChoice
from harness.fabricate.rounds import Rows


class PaddingAmongIds(RoundChoice):
    """Rows that no id owns may be drafted."""

    def _bound(self) -> int:
        return len(self.head)


class SelectorFault(RoundChoice):
    """A selector done wrongly; by itself done rightly."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether there is a selector."""
        del positions
        return shape.generation_2 is not None


class SelectorIgnored(SelectorFault):
    """Each slot takes its best logit."""

    def _scores(self, own: Rows, edges: Rows) -> Rows:
        return own


class EdgesAlone(SelectorFault):
    """Candidates are weighed by the selector alone."""

    def _scores(self, own: Rows, edges: Rows) -> Rows:
        return edges


class EdgesTakenAway(SelectorFault):
    """The selector's part is subtracted."""

    def _scores(self, own: Rows, edges: Rows) -> Rows:
        return own - edges


class EdgesFromAnchor(SelectorFault):
    """Every slot follows the anchor."""

    def _followed(self, drafts: Ids, logits: Rows, anchors: Ids) -> Ids:
        return anchors


class EdgesFromBestLogit(SelectorFault):
    """Every slot follows the best logit of the slot before."""

    def _followed(self, drafts: Ids, logits: Rows, anchors: Ids) -> Ids:
        return np.asarray(logits.argmax(axis=-1), np.int64)


class CodebooksSwapped(SelectorFault):
    """The two codebooks are taken for each other."""

    def _codebooks(self) -> tuple[Rows, Rows]:
        before, after = super()._codebooks()
        return after, before


class GateOfSlotBefore(SelectorFault):
    """The gate is that of the slot before."""

    def _gates(self, hidden: Rows, slot: int) -> Rows:
        return super()._gates(hidden, slot - 1)


class GateDropped(SelectorFault):
    """There is no gate."""

    def _gates(self, hidden: Rows, slot: int) -> Rows:
        return np.ones_like(super()._gates(hidden, slot))


class CandidateMore(SelectorFault):
    """One candidate more."""

    def _num_candidates(self) -> int:
        return super()._num_candidates() + 1


class CandidateLess(SelectorFault):
    """One candidate less."""

    def _num_candidates(self) -> int:
        return super()._num_candidates() - 1


class NoCut(SelectorFault):
    """Every id is a candidate."""

    def _num_candidates(self) -> int:
        return self.vocab


class TransformFault(SelectorFault):
    """Multiplier or cap done wrongly; by itself done rightly."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether there is a selector behind a multiplier and a cap; without one both change no order."""
        is_transformed = shape.output_multiplier != 1 and shape.final_logit_softcapping is not None
        return super().applies(shape, positions) and is_transformed


class MultiplierDropped(TransformFault):
    """Logits are not multiplied."""

    def _transformed(self, logits: Rows) -> Rows:
        return self._capped(logits)


class CapDropped(TransformFault):
    """Logits are not capped."""

    def _capped(self, logits: Rows) -> Rows:
        return logits


class MultiplierAfterCap(TransformFault):
    """Logits are capped first."""

    def _transformed(self, logits: Rows) -> Rows:
        return self._capped(logits) * self.shape.output_multiplier


class EdgesMultiplied(TransformFault):
    """The multiplier is applied to what the selector adds, too."""

    def _scores(self, own: Rows, edges: Rows) -> Rows:
        return own + self.shape.output_multiplier * edges


class SumCapped(TransformFault):
    """The cap is applied to the sum."""

    def _transformed(self, logits: Rows) -> Rows:
        return logits * self.shape.output_multiplier

    def _scores(self, own: Rows, edges: Rows) -> Rows:
        return self._capped(own + edges)


CHOICE_FAULTS: tuple[type[RoundChoice], ...] = (
    PaddingAmongIds,
    SelectorIgnored,
    EdgesAlone,
    EdgesTakenAway,
    EdgesFromAnchor,
    EdgesFromBestLogit,
    CodebooksSwapped,
    GateOfSlotBefore,
    GateDropped,
    CandidateMore,
    CandidateLess,
    NoCut,
    MultiplierDropped,
    CapDropped,
    MultiplierAfterCap,
    EdgesMultiplied,
    SumCapped,
)
