"""Faults that a reader of generation 2 packs could have in its convolutions. Each is a `RoundTrunk` with a step done wrongly."""

# ruff: noqa: ARG002  (an override takes what the step that it replaces takes)

from __future__ import annotations

import numpy as np

from harness.fabricate.draft_shape import DraftShape
from harness.fabricate.round_trunk import Deltas, Function, RoundTrunk
from harness.fabricate.rounds import Rows


class ConvFault(RoundTrunk):
    """A convolution done wrongly; by itself done rightly."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether there are convolutions."""
        del positions
        return shape.generation_2 is not None

    def _last_tap(self) -> int:
        return self._sizes()[0] - 1


class DeltaDropped(ConvFault):
    """Coefficients have no dynamic part."""

    def _deltas(self, y: Rows, projection: Rows) -> Deltas:
        return 0 * super()._deltas(y, projection)


class BaseDropped(ConvFault):
    """Coefficients have no fixed part."""

    def _coefficients(self, side: int, tap: int, base: Rows, deltas: Deltas) -> Rows:
        return super()._coefficients(side, tap, 0 * base, deltas)


class BaseTapsSwapped(ConvFault):
    """The fixed part counts taps from the far end."""

    def _coefficients(self, side: int, tap: int, base: Rows, deltas: Deltas) -> Rows:
        return super()._coefficients(side, tap, base[:, ::-1], deltas)


class DeltaTapsSwapped(ConvFault):
    """The dynamic part counts taps from the far end."""

    def _coefficients(self, side: int, tap: int, base: Rows, deltas: Deltas) -> Rows:
        return super()._coefficients(side, tap, base, deltas[:, :, :, ::-1])


class GroupsInterleaved(ConvFault):
    """A group is every so many channels instead of neighbours."""

    def _per_channel(self, by_group: Rows) -> Rows:
        return np.concatenate([by_group] * self._sizes()[1], axis=-1)


class DeltasByTapThenSide(ConvFault):
    """Rows of the projection are read by tap, then side, then group."""

    def _deltas(self, y: Rows, projection: Rows) -> Deltas:
        right = super()._deltas(y, projection)
        return np.swapaxes(right.reshape(*right.shape[:2], right.shape[3], 2, -1), 2, 3)


class DeltasByGroupThenTap(ConvFault):
    """Rows of the projection are read by side, then group, then tap."""

    def _deltas(self, y: Rows, projection: Rows) -> Deltas:
        right = super()._deltas(y, projection)
        return np.swapaxes(right.reshape(*right.shape[:3], -1, right.shape[3]), 3, 4)


class SidesSwapped(ConvFault):
    """Input and output take each other's coefficients."""

    def _mixed(self, side: int, rows: Rows, base: Rows, deltas: Deltas) -> Rows:
        return super()._mixed(1 - side, rows, base, deltas)


class FirstSideTwice(ConvFault):
    """The output takes the input's coefficients."""

    def _mixed(self, side: int, rows: Rows, base: Rows, deltas: Deltas) -> Rows:
        return super()._mixed(0, rows, base, deltas)


class LooksAhead(ConvFault):
    """A tap reads the slot that far ahead."""

    def _earlier(self, rows: Rows, count: int) -> Rows:
        return super()._earlier(rows[:, ::-1], count)[:, ::-1]


class WrapsAround(ConvFault):
    """What lies before the first slot is the block's end."""

    def _earlier(self, rows: Rows, count: int) -> Rows:
        return np.roll(rows, count, axis=1)


class FirstSlotRepeated(ConvFault):
    """What lies before the first slot is the first slot."""

    def _earlier(self, rows: Rows, count: int) -> Rows:
        return rows[:, np.maximum(np.arange(rows.shape[1]) - count, 0)]


class ContextBeforeBlock(ConvFault):
    """What lies before the first slot is the newest context row."""

    def _earlier(self, rows: Rows, count: int) -> Rows:
        shifted = super()._earlier(rows, count)
        if count and rows.shape[-1] == self.context.rows.shape[-1]:
            shifted[:, 0] = self.context.rows[self.context.counts - count]
        return shifted


class DeltaOfSource(ConvFault):
    """The dynamic part is that of the slot that is read."""

    def _coefficients(self, side: int, tap: int, base: Rows, deltas: Deltas) -> Rows:
        return np.asarray(base[side, tap] + self._earlier(self._per_channel(deltas[:, :, side, tap]), tap))


class DeltasOfOutputFromMixedInput(ConvFault):
    """The output's dynamic part comes from the input as it was mixed."""

    def _sublayer(self, x: Rows, layer: int, norm: str, conv: str, function: Function) -> Rows:
        projection = self.weights[f"layers.{layer}.{conv}.kernel_projection.weight"]
        mixed: list[Rows] = []

        def watched(at: int, h: Rows, y: Rows) -> Rows:
            mixed.append(h)
            return function(at, h, y)

        def output(rows: Rows, base: Rows) -> Rows:
            return self._mixed(1, rows, base, self._deltas(mixed[0], projection))

        y = self._rms(x, f"layers.{layer}.{norm}.weight")
        base = self.weights[f"layers.{layer}.{conv}.base_kernel"]
        h = self._mixed(0, y, base, self._deltas(y, projection))
        return x + output(watched(layer, h, y), base)


class InputNotMixed(ConvFault):
    """The input goes into the sublayer as it is."""

    def _mixed(self, side: int, rows: Rows, base: Rows, deltas: Deltas) -> Rows:
        return super()._mixed(side, rows, base, deltas) if side else rows


class KeysOfUnmixedBlock(ConvFault):
    """Keys and values of the block come from its input before it was mixed."""

    def _block_input(self, h: Rows, unmixed: Rows) -> Rows:
        return unmixed


class OutputNotMixed(ConvFault):
    """The output of a sublayer is added as it is."""

    def _output(self, rows: Rows, conv: str, base: Rows, deltas: Deltas) -> Rows:
        return rows


class FeedForwardOutputNotMixed(ConvFault):
    """The output of the feed-forward is added as it is."""

    def _output(self, rows: Rows, conv: str, base: Rows, deltas: Deltas) -> Rows:
        return rows if conv == "mlp_conv" else super()._output(rows, conv, base, deltas)


class ContextMixed(ConvFault):
    """Context rows are mixed as block rows are, without the dynamic part."""

    def _context_input(self, layer: int, rows: Rows) -> Rows:
        base = self.weights[f"layers.{layer}.attention_conv.base_kernel"]
        before = np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
        return np.asarray(base[0, 0] * rows + base[0, self._last_tap()] * before)


CONV_FAULTS: tuple[type[ConvFault], ...] = (
    DeltaDropped,
    BaseDropped,
    BaseTapsSwapped,
    DeltaTapsSwapped,
    GroupsInterleaved,
    DeltasByTapThenSide,
    DeltasByGroupThenTap,
    SidesSwapped,
    FirstSideTwice,
    LooksAhead,
    WrapsAround,
    FirstSlotRepeated,
    ContextBeforeBlock,
    DeltaOfSource,
    DeltasOfOutputFromMixedInput,
    InputNotMixed,
    KeysOfUnmixedBlock,
    OutputNotMixed,
    FeedForwardOutputNotMixed,
    ContextMixed,
)
