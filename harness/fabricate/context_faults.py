"""Faults that a reader of packs could have in taps and committed rows.

Each is a `RoundTrunk` with a step or two done wrongly; its docstring says which. None changes a token of any reply, so that only
proposed ids and counts can show them. Sources: the mutation table of the format's description, and reports of low acceptance
against engines that draft from packs.
"""

# ruff: noqa: ARG002  (an override takes what the step that it replaces takes)

from __future__ import annotations

import numpy as np

from harness.fabricate.draft_shape import DraftShape
from harness.fabricate.round_trunk import Context, Positions, RoundTrunk
from harness.fabricate.rounds import Rows


class TapsOneLower(RoundTrunk):
    """Each tap is what its layer reads instead of what it leaves."""

    def _tap_ids(self) -> tuple[int, ...]:
        return tuple(tap - 1 for tap in super()._tap_ids())


class TapsOneHigher(RoundTrunk):
    """Each tap is a layer too late."""

    def _tap_ids(self) -> tuple[int, ...]:
        return tuple(tap + 1 for tap in super()._tap_ids())


class TapsReversed(RoundTrunk):
    """Taps are joined in the opposite order."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether there is an order."""
        del positions
        return len(shape.taps) > 1

    def _tap_ids(self) -> tuple[int, ...]:
        return super()._tap_ids()[::-1]


class TapsSorted(RoundTrunk):
    """Taps are joined in the order of layers instead of the order listed."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether the order listed is another one."""
        del positions
        return list(shape.taps) != sorted(shape.taps)

    def _tap_ids(self) -> tuple[int, ...]:
        return tuple(sorted(super()._tap_ids()))


class HiddenNormSkipped(RoundTrunk):
    """Context rows are not normed."""

    def _context_norm(self, rows: Rows) -> Rows:
        return rows


class ContextThroughInputNorm(RoundTrunk):
    """Context rows go through the input norm of each layer, as block rows do."""

    def _context_input(self, layer: int, rows: Rows) -> Rows:
        return self._rms(rows, f"layers.{layer}.input_layernorm.weight")


class ContextKeysNotNormed(RoundTrunk):
    """Keys of context rows are not normed."""

    def _context_keys(self, layer: int, committed: Rows) -> Rows:
        projected = committed @ self.weights[f"layers.{layer}.self_attn.k_proj.weight"].T
        return np.swapaxes(projected.reshape(len(committed), -1, self.shape.head_dim), -2, -3)


class ContextKeysNormedByFirstLayer(RoundTrunk):
    """Keys of context rows take the key norm of layer 0 in every layer."""

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether there is another layer."""
        del positions
        return shape.layers > 1

    def _context_keys(self, layer: int, committed: Rows) -> Rows:
        projected = committed @ self.weights[f"layers.{layer}.self_attn.k_proj.weight"].T
        split = np.swapaxes(projected.reshape(len(committed), -1, self.shape.head_dim), -2, -3)
        return self._rms(split, "layers.0.self_attn.k_norm.weight")


class ContextPositionsRestart(RoundTrunk):
    """Positions of the rows of every round count from zero."""

    def _positions_of(self, committed: int, count: int) -> Positions:
        return np.arange(count)


class ContextPositionsOneAhead(RoundTrunk):
    """Rows that rounds commit stand one position too far."""

    def _positions_of(self, committed: int, count: int) -> Positions:
        return np.arange(committed, committed + count) + 1


class LastRowsKept(RoundTrunk):
    """Of a pass the last rows are committed, those of rejected drafts."""

    def _kept(self, rows: Rows, accepted: int) -> Rows:
        return rows[len(rows) - accepted - 1 :]


class RejectedRowKept(RoundTrunk):
    """The row of the first rejected draft is committed too."""

    def _kept(self, rows: Rows, accepted: int) -> Rows:
        return rows[: accepted + 2]


class AllRowsKept(RoundTrunk):
    """All rows of a pass are committed."""

    def _kept(self, rows: Rows, accepted: int) -> Rows:
        return rows


class AnchorRowDropped(RoundTrunk):
    """Of a pass only the rows of accepted drafts are committed."""

    def _kept(self, rows: Rows, accepted: int) -> Rows:
        return rows[1 : accepted + 1]


class NewestRowUnseen(RoundTrunk):
    """The row right before the anchor is not there yet."""

    def _context(self) -> Context:
        right = super()._context()
        return Context(right.rows, right.positions, right.counts - 1)


class RowsOneLate(RoundTrunk):
    """Each row is that of the token before."""

    def _context(self) -> Context:
        right = super()._context()
        return Context(np.roll(right.rows, 1, axis=0), right.positions, right.counts)


class OneRowStale(RoundTrunk):
    """One row of the prompt, the last, is what another token left."""

    def _context(self) -> Context:
        right = super()._context()
        rows = right.rows.copy()
        last = len(self.rounds.prompt_rows) - 1
        rows[last] = rows[last - 1]
        return Context(rows, right.positions, right.counts)


class BlocksCommitted(RoundTrunk):
    """Keys and values of earlier rounds' blocks stay in the cache."""

    def _attention(self, layer: int, h: Rows, unmixed: Rows) -> Rows:
        positions = self._block_positions()
        flat = h.reshape(-1, h.shape[-1])
        keys = self._turned(self._by_head(layer, "k", flat), positions.reshape(-1))
        committed = self._context_input(layer, self.context.rows)
        keys = np.concatenate([self._turned(self._context_keys(layer, committed), self.context.positions), keys], axis=-2)
        values = np.concatenate([self._by_head(layer, "v", committed), self._by_head(layer, "v", flat)], axis=-2)
        places = np.concatenate([self.context.positions, positions.reshape(-1)])
        rounds = np.arange(len(positions))
        there = np.arange(len(self.context.positions)) < self.context.counts[:, None]
        until_now = np.repeat(rounds <= rounds[:, None], positions.shape[1], axis=1)
        seen = np.concatenate([there, until_now], axis=1)[:, None] & self._may_see(layer, positions[..., None] - places)
        query = self._turned(self._by_head(layer, "q", h), positions[:, None])
        shares = self._shares(query, self._shared(keys), query[..., :0, :], seen)
        mixed = np.swapaxes(shares @ self._shared(values), -2, -3)
        return mixed.reshape(*h.shape[:2], -1) @ self.weights[f"layers.{layer}.self_attn.o_proj.weight"].T


CONTEXT_FAULTS: tuple[type[RoundTrunk], ...] = (
    TapsOneLower,
    TapsOneHigher,
    TapsReversed,
    TapsSorted,
    HiddenNormSkipped,
    ContextThroughInputNorm,
    ContextKeysNotNormed,
    ContextKeysNormedByFirstLayer,
    ContextPositionsRestart,
    ContextPositionsOneAhead,
    LastRowsKept,
    RejectedRowKept,
    AllRowsKept,
    AnchorRowDropped,
    NewestRowUnseen,
    RowsOneLate,
    OneRowStale,
    BlocksCommitted,
)
