"""From a block's hidden rows to drafts. Generation 1: the target's own head, bounded, slot by slot."""

from __future__ import annotations

from typing import Protocol

from forward_serve.decoding.greedy import bounded_argmax
from forward_serve.decoding.interfaces import Rows


class LogitsSource(Protocol):
    """The part of the target that a pick reads."""

    @property
    def vocab_bound(self) -> int:
        """Ids below this are tokens."""

    def head(self, hidden: Rows) -> Rows:
        """Return the target's logits [n, V] of final-normed rows [n, H]."""


class Pick(Protocol):
    """How a generation chooses one draft for each slot behind the anchor."""

    def __call__(self, hidden: Rows, anchor: int) -> list[int]:
        """Return one id for each row of [B - 1, H]; `anchor` is the token in front of the first."""


class ArgmaxPick:
    """Each slot's best bounded id by the target's head, each for itself.

    Multiplier and soft cap are not applied: both are increasing, so they change no argmax, and in float32 the cap would round
    distinct logits to equal ones.
    """

    def __init__(self, source: LogitsSource) -> None:
        self._source = source

    def __call__(self, hidden: Rows, anchor: int) -> list[int]:  # noqa: ARG002
        """Return one id for each row of [B - 1, H]."""
        drafts: list[int] = bounded_argmax(self._source.head(hidden), self._source.vocab_bound).tolist()
        return drafts
