"""The one fitted tensor of a pack: the last down_proj, a ridge readout of a random draft trunk.

It puts a direction into the final hidden state of each slot along which the target's own head says the wanted token. Slots
that come out narrow weigh more in the next round of the fit; a slot whose token nobody prescribed, but which would be
a near-tie, is pinned to what it says already. It does not know why a token is wanted (aim.py). Letters: N blocks, B slots of
a block, A = N * B, I intermediate, H hidden, K taps and G groups of the convolution behind the readout, R slots that are fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.aim import FREE, Aim
from harness.fabricate.numerics import to_bf16

Matrix = NDArray[np.float64]
Tokens = NDArray[np.integer[Any]]
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
    """All slots of a pack: features, what the readout is added to, and the convolution that its output goes through."""

    inner: Matrix  # [A, I]
    before: Matrix  # [A, H]
    coefficients: Matrix  # [A, K, G]: what is read of the slot itself and of those before it; zero before slot 0

    @staticmethod
    def of(inner: Matrix, before: Matrix, coefficients: Matrix | None) -> Slots:
        """Return the slots of blocks [..., B, *]; without coefficients the output of a slot is its own."""
        block = inner.shape[-2]
        if coefficients is None:
            coefficients = np.ones((*inner.shape[:-1], 1, 1))
        taps = np.arange(coefficients.shape[-2])
        exists = np.arange(block)[:, None] >= taps
        kept = np.where(exists[..., None], coefficients, 0.0)
        return Slots(*(one.reshape(-1, *one.shape[inner.ndim - 1 :]) for one in (inner, before, kept)))

    def outputs(self, down: Matrix) -> Matrix:
        """Return the residuals [A, H] under a readout [H, I]."""
        raw = self.inner @ down.T
        grouped = raw.reshape(len(raw), self.coefficients.shape[2], -1)
        mixed = np.zeros_like(grouped)
        for back in range(self.coefficients.shape[1]):
            mixed += self.coefficients[:, back, :, None] * np.roll(grouped, back, axis=0)
        return self.before + mixed.reshape(raw.shape)


def fit_down(slots: Slots, noise_gram: Matrix, aim: Aim, dials: ReadoutDials) -> Matrix:
    """Return the last down_proj [H, I], exact in bf16; `noise_gram` [I, I] is the second moment of the features' noise.

    Weighted ridge in its dual form: only the weights of slots change from round to round, so the one large solve is done
    once, and a round costs a solve as wide as the slots it fits, for each group. Ends when no slot is narrow, or after the
    last round.
    """
    tokens = aim.tokens.copy()
    prescribed = tokens != FREE
    weights = prescribed.astype(np.float64)
    power = np.mean(slots.inner[prescribed] ** 2) * np.count_nonzero(prescribed)
    damping = dials.noise_weight * noise_gram + dials.ridge * power * np.eye(len(noise_gram))
    basis = np.linalg.solve(damping, slots.inner.T)  # [I, A]
    kernel = slots.inner @ basis  # [A, A]
    down = np.zeros((slots.before.shape[1], slots.inner.shape[1]))
    for _ in range(dials.most_rounds):
        used = np.flatnonzero(weights)
        before = slots.before[used]
        directions = aim.directions(used, tokens)
        wanted = dials.stretch * _rms(before) / _rms(directions) * directions - before
        down = to_bf16((basis @ _factors(kernel, slots.coefficients, used, weights, wanted)).T).astype(np.float64)
        if not _reweigh(tokens, weights, prescribed, aim.look(slots.outputs(down), tokens), dials):
            break
    return down


def _factors(kernel: Matrix, coefficients: Matrix, used: Tokens, weights: Matrix, wanted: Matrix) -> Matrix:
    """Return what each slot's features weigh [A, H] in the readout that gives `wanted` [R, H] at the slots `used`."""
    taps, groups = coefficients.shape[1:]
    size = wanted.shape[1] // groups
    factors = np.zeros((len(kernel), wanted.shape[1]))
    sources = [used - back for back in range(taps)]  # a slot that is not there has coefficient zero
    for group in range(groups):
        shares = coefficients[used, :, group]  # [R, K]
        mixed = np.zeros((len(used), len(used)))
        for one, left in enumerate(sources):
            for other, right in enumerate(sources):
                mixed += shares[:, one, None] * shares[:, other] * kernel[np.ix_(left, right)]
        channels = slice(group * size, (group + 1) * size)
        solved = np.linalg.solve(mixed + np.diag(1 / weights[used]), wanted[:, channels])
        for back, source in enumerate(sources):
            factors[source, channels] += shares[:, back, None] * solved
    return factors


def _reweigh(
    tokens: Tokens, weights: Matrix, prescribed: NDArray[np.bool_], seen: tuple[Tokens, Matrix], dials: ReadoutDials
) -> bool:
    """Pin free slots that are nearly ties, give narrow slots more weight; return whether any slot is far too narrow."""
    says, gaps = seen
    wanted = np.where(prescribed, dials.aim, dials.pin_below) * np.median(gaps[prescribed])
    narrow = (tokens == FREE) & (gaps < wanted)
    tokens[narrow] = says[narrow]
    weights[narrow] = 1
    missing = wanted / np.maximum(gaps, _NARROWEST)
    weights *= np.clip(missing, 1, _WIDEST_STEP)
    return bool((missing > np.where(prescribed, _NARROW, _NARROW_UNPRESCRIBED)).any())


def _rms(rows: Matrix) -> Matrix:
    return np.asarray(np.sqrt(np.mean(rows * rows, axis=1, keepdims=True)))
