"""What the decoding loop needs of a model and of a drafter. Knows neither weights nor HTTP.

Words: a *base* is the target model with its KV cache; a *pass* is one call of the base, whatever its rows; a *row* is one
token's position in a pass; a *tap* is a target layer's output row that a draft head reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]  # [rows, features]


class Base(Protocol):
    """The target model and its KV cache."""

    @property
    def vocab_bound(self) -> int:
        """Ids below this are tokens; the rows of the head above it are padding and may never be chosen."""

    @property
    def width(self) -> int:
        """Rows of one verify pass, the committed token t1 included."""

    @property
    def num_positions(self) -> int:
        """Positions that the KV cache holds."""

    def forward(self, ids: Sequence[int]) -> Rows:
        """Run one pass over `ids` at the next positions, append their KV (and tap) rows, and return logits [rows, V]."""

    def truncate(self, num_positions: int) -> None:
        """Cut the KV cache, the taps and nothing else to the first `num_positions` positions."""

    @property
    def last_hidden(self) -> Rows | None:
        """Final-normed hidden rows [rows, H] of the last pass; None where the base keeps none."""


class Head(Protocol):
    """A drafter. It proposes; it never decides."""

    name: str  # as it stands in the [spec] line: lookup, dflash
    needs_hidden: bool  # True: two-pass rounds, it reads the hidden row of the current token
    pays: bool  # True: asking costs a forward of its own, so a silent attempt is recorded by the fallback rule

    @property
    def last_word(self) -> str:
        """Why the last attempt proposed nothing: no-match, no-taps, out-of-step; "" after a proposal."""

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """Forget the former request and take this prompt as the committed stream."""

    def propose(self, t1: int, position: int, max_drafts: int, hidden: Rows | None) -> list[int]:
        """Return at most `max_drafts` tokens to follow `t1`, the token at index `position` of the stream.

        `position` is the number of positions that the base has run before t1. [] = no proposal; `last_word` says why.
        `hidden` is the base's hidden row [H] of t1 for heads that need it, else None.
        """

    def commit_rows(self, ids: Sequence[int]) -> None:
        """Take `ids` as committed and run by the base, in order; called after every round and every plain step."""
