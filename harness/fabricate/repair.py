"""Repair of a rounded head by flipping single 4-bit codes. It knows states, tokens and codes, nothing of where they come from.

The state with the smallest gap is taken first; every change by one step of every code of its winner's and its runner-up's
row is tried at once, and the best is made. A row matters only at the states where one flip could bring it near its
rival, which keeps a step at a few thousand products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.q4nx import GROUP, Q41

Matrix = NDArray[np.float64]
_STEPS = np.array([1.0, -1.0])


@dataclass(frozen=True, slots=True)
class Repair:
    """A repaired matrix, and the smallest gap between a wanted token and the best other one."""

    matrix: Q41
    num_flips: int
    smallest_gap: float


@dataclass(frozen=True, slots=True)
class _Flip:
    gain: float
    row: int
    column: int
    step: int


@dataclass(slots=True)
class _Bench:
    """The margins while codes change. `margins[s, v]` = wanted score of state s minus the score of row v; inf at itself."""

    states: Matrix  # [n, H]
    tokens: NDArray[np.integer[Any]]  # [n]
    codes: NDArray[np.int64]  # [rows, H]
    steps: Matrix  # [rows, H]: what one code is worth
    margins: Matrix  # [n, rows]
    wanted: float

    def gaps(self) -> Matrix:
        return np.asarray(self.margins.min(axis=1))

    def best_flip(self, row: int, gaps: Matrix) -> _Flip:
        """Return the flip in this row that lowers the cost most; gain <= 0 when none does."""
        wins = self.tokens == row
        slack = np.where(wins, gaps, self.margins[:, row])
        reach = self.steps[row].max() * np.abs(self.states).max()
        near = slack < self.wanted + reach
        signs = np.where(wins[near], 1.0, -1.0)
        moves = self.states[near] * self.steps[row] * signs[:, None]
        now = _cost(self.wanted - slack[near][:, None])
        short = self.wanted - slack[near][None, :, None] - _STEPS[:, None, None] * moves
        gains = now - _cost(short)  # [2, H]
        codes = self.codes[row]
        gains[0, codes == 15] = -np.inf
        gains[1, codes == 0] = -np.inf
        sign, column = divmod(int(gains.argmax()), gains.shape[1])
        return _Flip(float(gains[sign, column]), row, column, int(_STEPS[sign]))

    def apply(self, flip: _Flip) -> None:
        self.codes[flip.row, flip.column] += flip.step
        move = flip.step * self.steps[flip.row, flip.column] * self.states[:, flip.column]
        wins = self.tokens == flip.row
        self.margins[~wins, flip.row] -= move[~wins]
        self.margins[wins] += move[wins, None]


def _cost(short: Matrix) -> Any:
    """Return the summed cube of what is missing, over the states (the axis before the last)."""
    missing = np.maximum(short, 0)
    return (missing * missing * missing).sum(axis=-2)


def repair_codes(
    matrix: Q41, states: Matrix, tokens: NDArray[np.integer[Any]], num_rows: int, wanted: float, most_flips: int
) -> Repair:
    """Flip codes of the first `num_rows` rows until every state wins by `wanted`, or no flip of the worst ones helps."""
    bench = _bench(matrix, states, tokens, num_rows, wanted)
    flips = 0
    gaps = bench.gaps()
    while flips < most_flips:
        flip = _next_flip(bench, gaps)
        if flip is None:
            break
        bench.apply(flip)
        gaps = bench.gaps()
        flips += 1
    codes = matrix.codes.copy()
    codes[:num_rows] = bench.codes
    return Repair(Q41(codes, matrix.scales, matrix.mins), flips, float(gaps.min()))


def _bench(matrix: Q41, states: Matrix, tokens: NDArray[np.integer[Any]], num_rows: int, wanted: float) -> _Bench:
    scores = states @ matrix.decode()[:num_rows].T
    margins = scores[np.arange(len(tokens)), tokens][:, None] - scores
    margins[np.arange(len(tokens)), tokens] = np.inf
    steps = np.repeat(matrix.scales[:num_rows], GROUP, axis=1)
    return _Bench(states, tokens, matrix.codes[:num_rows].astype(np.int64), steps, margins, wanted)


def _next_flip(bench: _Bench, gaps: Matrix) -> _Flip | None:
    """Return the best flip for the worst state that any flip helps, or None."""
    for state in np.argsort(gaps):
        if gaps[state] >= bench.wanted:
            return None
        rows = (int(bench.tokens[state]), int(bench.margins[state].argmin()))
        flip = max((bench.best_flip(row, gaps) for row in rows), key=lambda one: one.gain)
        if flip.gain > 0:
            return flip
    return None
