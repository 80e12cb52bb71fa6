"""The drafter that reads the target's layers: tap rows in, a block of drafts out. Knows no arithmetic and no file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from forward_serve.decoding.dflash.config import TargetConfig
from forward_serve.decoding.dflash.pack import DFlashPack
from forward_serve.decoding.dflash.pick import LogitsSource, pick_of
from forward_serve.decoding.dflash.trunk import DraftTrunk
from forward_serve.decoding.interfaces import Rows
from forward_serve.decoding.silence import Silence


class Taps(Protocol):
    """The append-only store of tap rows that the base writes on every pass and cuts with its KV cache."""

    def __len__(self) -> int:
        """Rows that it holds."""

    def clear(self) -> None:
        """Drop all rows."""

    def rows(self, start: int, stop: int) -> Rows:
        """Return the rows start .. stop - 1, [n, T H]."""


class DraftTarget(LogitsSource, Protocol):
    """The part of the target that a draft head uses."""

    @property
    def config(self) -> TargetConfig:
        """The shape of the target."""

    def embed(self, ids: Sequence[int]) -> Rows:
        """Return raw rows [n, H] of the embedding table."""


class DFlashHead:
    """Drafts one whole block behind t1 from the tap rows of every committed position, or refuses (no-taps).

    The block is always the pack's own, whatever is asked for: its slots see each other, so a shorter block would draft
    differently, and drafts may not depend on the budget. Context keys and values are made of committed tap rows alone, when a
    draft is asked for; they are never cut, because a committed row stays. Raises Refusal for a pack made for another target.
    """

    name = "dflash"
    needs_hidden = False

    def __init__(self, pack: DFlashPack, target: DraftTarget, taps: Taps) -> None:
        pack.check_against(target.config)
        self.pays = False  # whether the last attempt cost a forward: a refusal for want of taps costs none
        self._target = target
        self._taps = taps
        self._trunk = DraftTrunk(pack)
        self._pick = pick_of(pack, target)
        self._masks = [pack.config.mask_token_id] * (pack.block_size - 1)
        self._context = self._trunk.new_context()
        self._last_word = ""

    @property
    def last_word(self) -> str:
        """Why the last attempt proposed nothing: no-taps; "" after a proposal."""
        return self._last_word

    def begin(self, prompt_ids: Sequence[int]) -> None:  # noqa: ARG002
        """Forget the former request: its context and its tap rows. Comes before the prefill, which writes new ones."""
        self._context.clear()
        self._taps.clear()
        self._last_word = ""

    def commit_rows(self, ids: Sequence[int]) -> None:
        """Nothing to do: the tap rows that the base kept are the account of what is committed."""

    def propose(self, t1: int, position: int, max_drafts: int, hidden: Rows | None) -> list[int]:  # noqa: ARG002
        """Return the first `max_drafts` drafts of the block behind `t1`, or [] unless the taps are exactly `position` rows."""
        self.pays = self._has_taps_of(position)
        if not self.pays:
            self._last_word = Silence.NO_TAPS
            return []
        self._last_word = ""
        if self._context.num_positions < position:
            self._trunk.extend(self._context, self._taps.rows(self._context.num_positions, position))
        rows = self._trunk.block(self._context, self._target.embed([t1, *self._masks]))
        return self._pick(rows[1:], t1)[:max_drafts]

    def _has_taps_of(self, position: int) -> bool:
        return len(self._taps) == position and self._context.num_positions <= position
