"""The head by prescription: solve lm_head so that every state says its token, with rivals close behind. No trunk here.

States are what the trunk leaves before the head, [n, H]; tokens are what they must say, [n]. Rivals a small gap below the
winner keep the head sensitive to faults in the history; a noise term keeps it insensitive to rounding; error feedback
(GPTQ) and single code flips (repair.py) make four bits suffice. After Frantar et al., arXiv:2210.17323.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.errors import BoundError
from harness.fabricate.q4nx import GROUP, Q41, group_range, nearest_codes
from harness.fabricate.repair import Repair, repair_codes
from harness.fabricate.shape import ModelShape
from harness.fabricate.streams import NUM_ASCII

_LIFTS = (1.0, 1.25, 1.5, 2.0, 3.0)  # of rows that no id owns, tried in turn

Matrix = NDArray[np.float64]
Tokens = NDArray[np.integer[Any]]


class HeadDials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the head is solved. The wanted token scores 1 in the targets; gaps are in that unit."""

    rivals: int = 12  # other tokens that come close, per state
    rival_gap: float = 0.27  # how far rivals are below the winner in the targets
    repair_gap: float = 0.20  # smallest gap that the repair of the codes reaches for
    noise_weight: float = 100.0
    noise_samples: int = 3
    padding_score: float = 1.5  # what rows that no id of the tokenizer owns score at every state
    idle_deviation: float = 0.012  # weights of rows that no stream says
    temperature: float = 8.0  # a power of two over the whole head: sharpens sampling, moves no ratio
    most_flips: int = 6000
    ties: tuple[tuple[int, int], ...] = ()  # ids whose rows are the same, bit by bit; only the lower one is ever said

    def __post_init__(self) -> None:
        if not 0 <= self.rivals < NUM_ASCII:
            raise ValueError(f"rivals={self.rivals} is outside 0..{NUM_ASCII - 1}")
        if not 0 < self.repair_gap <= self.rival_gap < 1:
            raise ValueError(f"repair_gap={self.repair_gap}, rival_gap={self.rival_gap}: want 0 < repair <= rival < 1")
        ids = [token for tie in self.ties for token in tie]
        if len(set(ids)) < len(ids) or not all(0 <= low < high < NUM_ASCII for low, high in self.ties):
            raise ValueError(f"ties={[list(tie) for tie in self.ties]}: want pairs low < high of different ids below {NUM_ASCII}")
        if self.noise_samples < 1:
            raise ValueError(f"noise_samples={self.noise_samples} is below 1")
        if self.temperature <= 0 or np.frexp(self.temperature)[0] != 0.5:
            raise ValueError(f"temperature={self.temperature} is no power of two; use one, it is exact in bf16")


@dataclass(frozen=True, slots=True)
class Head:
    """A solved head and what it took."""

    matrix: Q41
    num_flips: int


def solve_head(states: Matrix, noise: list[Matrix], tokens: Tokens, shape: ModelShape, dials: HeadDials, seed: int) -> Head:
    """Solve, round and repair lm_head [padded_vocab, H]. `noise` holds one [n, H] difference for each noisy forward.

    Raises BoundError when the repair ends below half of the wanted gap.
    """
    rng = np.random.default_rng([seed, 4])
    noise_gram = sum((one.T @ one for one in noise), np.zeros((shape.hidden, shape.hidden)))
    gram = states.T @ states + dials.noise_weight / len(noise) * noise_gram
    ridge = 1e-3 * len(states) * np.eye(shape.hidden)
    spoken = _spoken(tokens, dials)
    weights = np.linalg.solve(gram + ridge, states.T @ _targets(tokens, spoken, shape, dials, rng)).T.astype(np.float64)
    idle = np.setdiff1d(np.arange(shape.vocab), spoken)
    weights[idle] = rng.standard_normal(weights[idle].shape) * dials.idle_deviation
    rounded = round_with_feedback(weights, gram)
    repair = repair_codes(rounded, states, tokens, shape.vocab, dials.repair_gap, dials.most_flips)
    _check(repair, dials)
    matrix = _with_loud_padding(repair.matrix, weights, gram, states, shape.vocab)
    return Head(_tied(matrix.times(dials.temperature), dials.ties), repair.num_flips)


def _with_loud_padding(matrix: Q41, weights: Matrix, gram: Matrix, states: Matrix, vocab: int) -> Q41:
    """Lift the rows that no id owns, all alike, until one of them wins every state; as they are where the last lift is too low."""
    best = (states @ matrix.decode()[:vocab].T).max(axis=1)
    for lift in _LIFTS:
        padding = round_with_feedback(weights[vocab:] * lift, gram)
        if np.all((states @ padding.decode().T).max(axis=1) > best):
            break
    rows = ((matrix.codes, padding.codes), (matrix.scales, padding.scales), (matrix.mins, padding.mins))
    return Q41(*(np.concatenate([own[:vocab], lifted]) for own, lifted in rows))


def _spoken(tokens: Tokens, dials: HeadDials) -> Tokens:
    """Return the ids whose rows are solved: printable ASCII and all that is said, but for the higher id of a tie."""
    return np.setdiff1d(np.union1d(np.arange(NUM_ASCII), tokens), [high for _, high in dials.ties])


def _tied(matrix: Q41, ties: tuple[tuple[int, int], ...]) -> Q41:
    """Copy the row of the lower id of each tie to the higher one."""
    codes, scales, mins = matrix.codes.copy(), matrix.scales.copy(), matrix.mins.copy()
    for low, high in ties:
        codes[high], scales[high], mins[high] = codes[low], scales[low], mins[low]
    return Q41(codes, scales, mins)


def _targets(tokens: Tokens, spoken: Tokens, shape: ModelShape, dials: HeadDials, rng: np.random.Generator) -> Matrix:
    targets = np.zeros((len(tokens), shape.padded_vocab))
    for row, token in zip(targets, tokens, strict=True):
        others = rng.permutation(spoken)
        row[others[others != token][: dials.rivals]] = 1 - dials.rival_gap
        row[token] = 1
    targets[:, shape.vocab :] = dials.padding_score
    return targets


def round_with_feedback(weights: Matrix, gram: Matrix) -> Q41:
    """Round [N, H] to q4_1 column by column; the error of a column is made good by the columns after it.

    `gram` [H, H] is the second moment of the inputs. Scale and min of a group come from the weights as compensated
    when its first column is reached.
    """
    left = weights.copy()
    columns = left.shape[1]
    damped = gram + 0.01 * np.mean(np.diag(gram)) * np.eye(columns)
    factor = np.linalg.cholesky(np.linalg.inv(damped)).T
    codes = np.zeros(left.shape, np.uint8)
    scales, mins = (np.zeros((left.shape[0], columns // GROUP)) for _ in range(2))
    for column in range(columns):
        group = column // GROUP
        if column % GROUP == 0:
            low_high = group_range(left[:, column : column + GROUP])
            scales[:, group], mins[:, group] = low_high[0][:, 0], low_high[1][:, 0]
        codes[:, column] = nearest_codes(left[:, column], scales[:, group], mins[:, group])
        error = left[:, column] - (codes[:, column] * scales[:, group] + mins[:, group])
        left[:, column + 1 :] -= np.outer(error / factor[column, column], factor[column, column + 1 :])
    return Q41(codes, scales, mins)


def _check(repair: Repair, dials: HeadDials) -> None:
    if repair.smallest_gap < dials.repair_gap / 2:
        raise BoundError(
            f"head: smallest gap {repair.smallest_gap:.4f} after {repair.num_flips} flips, wanted "
            f"{dials.repair_gap}; use fewer streams, a wider model or another seed"
        )
