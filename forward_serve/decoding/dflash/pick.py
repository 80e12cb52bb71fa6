"""From a block's hidden rows to drafts, with the target's own head, among ids below the vocabulary bound."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from forward_serve.decoding.dflash.config import DFlashConfig
from forward_serve.decoding.dflash.pack import DFlashPack
from forward_serve.decoding.dflash.selector import CandidateSelector, best_ids
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
    """Generation 1: each slot's best id, each for itself.

    Multiplier and soft cap are not applied: both are increasing, so they change no argmax, and in float32 the cap would round
    distinct logits to equal ones.
    """

    def __init__(self, source: LogitsSource) -> None:
        self._source = source

    def __call__(self, hidden: Rows, anchor: int) -> list[int]:  # noqa: ARG002
        """Return one id for each row of [B - 1, H]."""
        drafts: list[int] = bounded_argmax(self._source.head(hidden), self._source.vocab_bound).tolist()
        return drafts


class SelectorPick:
    """Generation 2: the selector's walk through each slot's best ids.

    The candidates are cut on the plain logits, which order ids as the scaled and capped ones do and round none of them to
    equal; the selector's edges are added to the scaled and capped ones.
    """

    def __init__(self, source: LogitsSource, selector: CandidateSelector, config: DFlashConfig) -> None:
        self._source = source
        self._selector = selector
        self._multiplier = np.float32(config.output_multiplier)
        self._cap = None if config.final_logit_softcapping is None else np.float32(config.final_logit_softcapping)

    def __call__(self, hidden: Rows, anchor: int) -> list[int]:
        """Return one id for each row of [B - 1, H], each chosen after the one before it."""
        logits = self._source.head(hidden)[:, : self._source.vocab_bound]
        candidates = best_ids(logits, self._selector.top_k)
        scores = self._scaled_and_capped(np.take_along_axis(logits, candidates, axis=-1))
        return self._selector.walk(hidden, candidates, scores, anchor)

    def _scaled_and_capped(self, logits: Rows) -> Rows:
        scaled = logits * self._multiplier
        return scaled if self._cap is None else np.tanh(scaled / self._cap) * self._cap


def pick_of(pack: DFlashPack, source: LogitsSource) -> Pick:
    """Return the pick of the pack's generation."""
    return ArgmaxPick(source) if pack.selector is None else SelectorPick(source, pack.selector, pack.config)
