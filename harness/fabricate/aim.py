"""What the readout of a pack is fitted for: the token of each slot, the hidden state that says it, and what it says so far.

A hidden state says a token by its logit alone (`Aim.directions`), or only with the selector's help (flip.py). It does not know
how a trunk reaches a hidden state. Letters: N blocks, B slots of a block, A = N * B, H hidden, V rows of the head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.choice import Selector, choose
from harness.fabricate.transformer import rms_norm

Matrix = NDArray[np.float64]
Tokens = NDArray[np.integer[Any]]
_LEAD = 3.0  # margins count so many times as much as the lead of another id's logit, which is that much smaller by design
_QUIET = 10.0  # weight of a gate that is to be zero, a logit that is wanted having 1
FREE = -1  # the token of a slot that may say anything


class HiddenStates(Protocol):
    """Where final hidden states should point, before they are brought to a length."""

    def __call__(self, slots: Tokens, tokens: Tokens) -> Matrix:
        """Return [R, H] for slots [R] (places among A) that shall say tokens [R]."""


@dataclass(frozen=True, slots=True)
class ByLogit:
    """Hidden states whose best logit is the token's."""

    solver: Matrix  # [H, V]: from logits to the hidden state that gives them
    vocab: int  # rows below this are ids
    padding_score: float  # what rows that no id owns score, the wanted token being 1

    @staticmethod
    def of(head: Matrix, vocab: int, padding_score: float, selector: Selector | None) -> ByLogit:
        """Return it for a head [V, H]; a selector's gates are kept near zero, so that it has little to say there."""
        gram = head.T @ head
        damping = 0.01 * np.mean(np.diag(gram)) * np.eye(len(gram))
        if selector is not None:
            gates = selector.gate / np.linalg.norm(selector.gate, axis=1, keepdims=True)
            damping += _QUIET * np.trace(gram) / len(head) * (gates.T @ gates)
        return ByLogit(np.asarray(np.linalg.solve(gram + damping, head.T), np.float64), vocab, padding_score)

    def __call__(self, slots: Tokens, tokens: Tokens) -> Matrix:
        """Return [R, H]: logit 1 for the token, `padding_score` for padded rows, and little elsewhere."""
        del slots
        wanted = np.zeros((len(tokens), self.solver.shape[1]))
        wanted[np.arange(len(tokens)), tokens] = 1
        wanted[:, self.vocab :] = self.padding_score
        return np.asarray(wanted @ self.solver.T)


@dataclass(frozen=True, slots=True)
class Aim:
    """All slots of a pack, and what turns residuals of its trunk into drafts."""

    tokens: Tokens  # [A], FREE where none is prescribed, as at every block's first slot, the anchor's
    anchors: Tokens  # [N]
    hidden_states: HiddenStates
    norm: Matrix  # [H], the trunk's final norm
    eps: float
    head: Matrix  # [V, H]
    vocab: int
    selector: Selector | None
    overruled: bool = False  # prescribed slots must have another best logit than the token's: the selector decides

    def directions(self, slots: Tokens, tokens: Tokens) -> Matrix:
        """Return which way residuals [R, H] of the slots [R] should point; `tokens` [A] may pin more than is prescribed."""
        return self.hidden_states(slots, tokens[slots]) / self.norm

    def look(self, residuals: Matrix, tokens: Tokens) -> tuple[Tokens, Matrix]:
        """Return what each slot says [A] under residuals [A, H], and by how much the token that it should say wins [A].

        Slots follow the tokens [A] that the slots before them should say. The anchor's own slot says what it is.
        """
        hidden = rms_norm(self._behind(residuals), self.norm, self.eps)
        behind = self._behind(tokens)
        choices = choose(self.selector, hidden, hidden @ self.head[: self.vocab].T, self.anchors, behind)
        margins = choices.margins()
        if self.overruled:
            prescribed = self._behind(self.tokens) != FREE
            margins = np.where(prescribed, np.minimum(margins, _LEAD * choices.lead()), margins)
        lost = (behind != FREE) & (behind != choices.drafts)
        margins = np.where(lost, -np.inf, margins)
        says = np.concatenate([self.anchors[:, None], choices.drafts], axis=1)
        return says.reshape(-1), np.concatenate([np.full((len(says), 1), np.inf), margins], axis=1).reshape(-1)

    def _behind(self, slots: NDArray[Any]) -> NDArray[Any]:
        """Return [A, ...] as blocks without the anchors' own slots, [N, B-1, ...]."""
        return slots.reshape(len(self.anchors), -1, *slots.shape[1:])[:, 1:]
