"""The one fitted tensor of a pack: the last down_proj, a ridge readout of a random draft trunk.

It puts a direction into the final hidden state of each slot along which the target's own head says the wanted token. Slots
that come out narrow weigh more in the next round of the fit; a slot whose token nobody prescribed, but which would be
a near-tie, is pinned to what it says already. It does not know why a token is wanted. Letters: A slots, I intermediate, H hidden,
V rows of the head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.numerics import to_bf16
from harness.fabricate.scores import gaps_of
from harness.fabricate.transformer import rms_norm

Matrix = NDArray[np.float64]
Tokens = NDArray[np.integer[Any]]
FREE = -1  # the token of a slot that may say anything
_WIDEST_STEP = 8.0  # how much the weight of a slot may grow in one round of the fit
_NARROWEST = 0.01  # gaps below this, or lost ones, count as this much
_NARROW = 1.25  # a slot whose gap is this many times below what is wanted keeps the fit going
_NARROW_UNPRESCRIBED = 4.0  # the same for slots that anything will do for


class ReadoutDials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the readout is fitted."""

    ridge: float = 1e-5  # in units of the mean squared feature
    noise_weight: float = 50.0
    noise_samples: int = 4
    stretch: float = 2.0  # rms of the wanted hidden state, in units of the residual's
    padding_score: float = 1.5  # what rows that no id owns score, the wanted token being 1
    most_rounds: int = 16
    aim: float = 0.6  # gaps below this share of the median gap weigh more in the next round
    pin_below: float = 0.08  # free slots with a gap below this share of the median gap are pinned

    def __post_init__(self) -> None:
        if min(self.ridge, self.stretch, self.noise_weight) <= 0:
            raise ValueError("ridge, stretch and noise_weight are above 0")
        if min(self.noise_samples, self.most_rounds) < 1:
            raise ValueError("noise_samples and most_rounds are at least 1")


@dataclass(frozen=True, slots=True)
class Slots:
    """All slots of a pack: features, the residual that the readout is added to, and the wanted tokens."""

    inner: Matrix  # [A, I]
    before: Matrix  # [A, H]
    tokens: Tokens  # [A], FREE where none is prescribed


@dataclass(frozen=True, slots=True)
class Target:
    """What turns a final hidden state of the trunk into scores."""

    norm: Matrix  # [H], the trunk's final norm
    eps: float
    head: Matrix  # [V, H]
    vocab: int  # rows below this are ids

    def directions(self, tokens: Tokens, padding_score: float) -> Matrix:
        """Return residuals [A, H] that score 1 for the token, `padding_score` for padded rows, and little elsewhere."""
        wanted = np.zeros((len(tokens), len(self.head)))
        wanted[np.arange(len(tokens)), tokens] = 1
        wanted[:, self.vocab :] = padding_score
        gram = self.head.T @ self.head
        damped = gram + 0.01 * np.mean(np.diag(gram)) * np.eye(len(gram))
        return np.asarray(np.linalg.solve(damped, self.head.T @ wanted.T).T / self.norm)

    def scores(self, residuals: Matrix) -> Matrix:
        """Return the scores of all ids [A, vocab]."""
        return rms_norm(residuals, self.norm, self.eps) @ self.head[: self.vocab].T


def fit_down(slots: Slots, noise_gram: Matrix, target: Target, dials: ReadoutDials) -> Matrix:
    """Return the last down_proj [H, I], exact in bf16; `noise_gram` [I, I] is the second moment of the features' noise.

    Weighted ridge in its dual form: only the weights of slots change from round to round, so the one large solve is done
    once, and a round costs a solve as wide as the slots it fits. Ends when no slot is narrow, or after the last round.
    """
    tokens = slots.tokens.copy()
    prescribed = tokens != FREE
    weights = prescribed.astype(np.float64)
    power = np.mean(slots.inner[prescribed] ** 2) * np.count_nonzero(prescribed)
    damping = dials.noise_weight * noise_gram + dials.ridge * power * np.eye(len(noise_gram))
    basis = np.linalg.solve(damping, slots.inner.T)  # [I, A]
    kernel = slots.inner @ basis  # [A, A]
    down = np.zeros((slots.before.shape[1], slots.inner.shape[1]))
    for _ in range(dials.most_rounds):
        used = np.flatnonzero(weights)
        wanted = _wanted_outputs(slots, tokens, used, target, dials)
        factors = np.linalg.solve(kernel[np.ix_(used, used)] + np.diag(1 / weights[used]), wanted)
        down = to_bf16((basis[:, used] @ factors).T).astype(np.float64)
        scores = target.scores(slots.before + slots.inner @ down.T)
        if not _reweigh(tokens, weights, prescribed, scores, dials):
            break
    return down


def _wanted_outputs(slots: Slots, tokens: Tokens, used: Tokens, target: Target, dials: ReadoutDials) -> Matrix:
    """Return what the readout has to add at the fitted slots, [R, H]."""
    before = slots.before[used]
    wanted = target.directions(tokens[used], dials.padding_score)
    return dials.stretch * _rms(before) / _rms(wanted) * wanted - before


def _reweigh(tokens: Tokens, weights: Matrix, prescribed: NDArray[np.bool_], scores: Matrix, dials: ReadoutDials) -> bool:
    """Pin free slots that are nearly ties, give narrow slots more weight; return whether any slot is far too narrow."""
    says = np.where(tokens == FREE, scores.argmax(axis=1), tokens)
    gaps = gaps_of(scores, says)
    wanted = np.where(prescribed, dials.aim, dials.pin_below) * np.median(gaps[prescribed])
    narrow = (tokens == FREE) & (gaps < wanted)
    tokens[narrow] = says[narrow]
    weights[narrow] = 1
    missing = wanted / np.maximum(gaps, _NARROWEST)
    weights *= np.clip(missing, 1, _WIDEST_STEP)
    return bool((missing > np.where(prescribed, _NARROW, _NARROW_UNPRESCRIBED)).any())


def _rms(rows: Matrix) -> Matrix:
    return np.asarray(np.sqrt(np.mean(rows * rows, axis=1, keepdims=True)))
