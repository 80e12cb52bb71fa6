"""Faults that a reader of packs could have in the block and its attention. Each is a `RoundTrunk` with a step done wrongly."""

# ruff: noqa: ARG002  (an override takes what the step that it replaces takes)

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.draft_shape import DraftShape
from harness.fabricate.round_trunk import Positions, RoundTrunk, Seen
from harness.fabricate.rounds import Rows


class AnotherMask(RoundTrunk):
    """The block is filled with the id below the mask's."""

    def _mask_id(self) -> int:
        return super()._mask_id() - 1


class EmbeddingNotScaled(RoundTrunk):
    """The block's embeddings are taken as they are."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether there is a scale."""
        del positions
        return shape.input_embedding_scale != 1

    def _scaled(self, blocks: Rows) -> Rows:
        return blocks


class AnchorNotScaled(EmbeddingNotScaled):
    """The scale is applied to masks alone."""

    def _scaled(self, blocks: Rows) -> Rows:
        blocks[:, 1:] *= self.shape.input_embedding_scale
        return blocks


class BlockOneAhead(RoundTrunk):
    """The block's positions leave a place free behind the context."""

    def _block_positions(self) -> Positions:
        return super()._block_positions() + 1


class BlockShrunk(RoundTrunk):
    """The block ends where the budget does, so that the last rounds see fewer masks."""

    def _seen(self, layer: int, positions: Positions) -> Seen:
        room = np.array([len(one.drafts) for one in self.rounds.rounds])
        seen = super()._seen(layer, positions)
        seen[..., -positions.shape[1] :] &= (np.arange(positions.shape[1]) <= room[:, None])[:, None]
        return seen


class SlotsOneEarly(RoundTrunk):
    """Drafts are read from the anchor's slot on."""

    def _final(self, x: Rows) -> Rows:
        return super()._final(np.roll(x, 1, axis=1))


class FinalNormSkipped(RoundTrunk):
    """Hidden rows go to the head as they are."""

    def _final(self, x: Rows) -> Rows:
        return x


class FinalNormOfTarget(RoundTrunk):
    """Hidden rows go through the target's final norm."""

    def _final(self, x: Rows) -> Rows:
        return super()._final(x) / self.weights["norm.weight"] * self.target_norm


class ThetaTenThousand(RoundTrunk):
    """Positions turn with the default theta of the field."""

    def _theta(self) -> float:
        return 1e4


class PairsInterleaved(RoundTrunk):
    """Rotary embedding turns neighbours instead of halves."""

    def _pairs(self, x: Rows) -> NDArray[np.complex128]:
        return np.asarray(x[..., ::2] + 1j * x[..., 1::2])

    def _joined(self, pairs: NDArray[np.complex128]) -> Rows:
        return np.stack([pairs.real, pairs.imag], axis=-1).reshape(*pairs.shape[:-1], -1)


class HeadsTiled(RoundTrunk):
    """Query heads share key heads in turn instead of neighbour by neighbour."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether the two differ."""
        del positions
        return 1 < shape.kv_heads < shape.heads

    def _shared(self, by_kv_head: Rows) -> Rows:
        return np.concatenate([by_kv_head] * (self.shape.heads // self.shape.kv_heads), axis=-3)


class BlockCausal(RoundTrunk):
    """Slots see backwards only in every layer."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether some layer does not slide."""
        del positions
        return any(shape.window_of(layer) is None for layer in range(shape.layers))

    def _is_causal(self, layer: int) -> bool:
        return True


class SlidingCausal(RoundTrunk):
    """A layer that slides is taken for a causal one though the pack says otherwise."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether some layer slides and is not causal."""
        del positions
        return any(shape.window_of(layer) is not None and not shape.is_causal(layer) for layer in range(shape.layers))

    def _is_causal(self, layer: int) -> bool:
        return self.shape.window_of(layer) is not None


class SlidingNotCausal(RoundTrunk):
    """A layer that slides is not causal though the pack does not say so."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether some layer is causal."""
        del positions
        return any(shape.is_causal(layer) for layer in range(shape.layers))

    def _is_causal(self, layer: int) -> bool:
        return False


class WindowIgnored(RoundTrunk):
    """Layers that slide see everything."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether some window is shorter than the streams."""
        return shape.window is not None and shape.window < positions

    def _window_of(self, layer: int) -> int | None:
        return None


class WindowOneMore(WindowIgnored):
    """The window takes in one position more."""

    def _window_of(self, layer: int) -> int | None:
        window = self.shape.window_of(layer)
        return None if window is None else window + 1


class WindowOneLess(WindowIgnored):
    """The window takes in one position less."""

    def _window_of(self, layer: int) -> int | None:
        window = self.shape.window_of(layer)
        return None if window is None else window - 1


class EveryLayerSlides(WindowIgnored):
    """The kind of the first layer is taken for all."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether layers differ."""
        return super().applies(shape, positions) and len({shape.window_of(layer) for layer in range(shape.layers)}) > 1

    def _window_of(self, layer: int) -> int | None:
        return self.shape.window_of(0)


BLOCK_FAULTS: tuple[type[RoundTrunk], ...] = (
    AnotherMask,
    EmbeddingNotScaled,
    AnchorNotScaled,
    BlockOneAhead,
    BlockShrunk,
    SlotsOneEarly,
    FinalNormSkipped,
    FinalNormOfTarget,
    ThetaTenThousand,
    PairsInterleaved,
    HeadsTiled,
    BlockCausal,
    SlidingCausal,
    SlidingNotCausal,
    WindowIgnored,
    WindowOneMore,
    WindowOneLess,
    EveryLayerSlides,
)
