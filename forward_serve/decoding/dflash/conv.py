"""The slot around a sublayer of the block, where a generation may mix slots. Generation 1 leaves it empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from forward_serve.decoding.interfaces import Rows


class BlockConv(Protocol):
    """A mixing over the slots of one block, before and after a sublayer. It never sees context rows."""

    def prepare(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the mixed input [B, H], and what `finish` needs that comes from the unmixed one."""

    def finish(self, rows: Rows, kept: Rows) -> Rows:
        """Return the mixed output [B, H]; the residual is added after it."""


def through(conv: BlockConv | None, rows: Rows, sublayer: Callable[[Rows], Rows]) -> Rows:
    """Run a sublayer on normed rows [B, H], inside its conv where the generation has one."""
    if conv is None:
        return sublayer(rows)
    mixed, kept = conv.prepare(rows)
    return conv.finish(sublayer(mixed), kept)
