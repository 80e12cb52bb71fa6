"""Sampling of one reply: temperature, top-k, top-p and a seeded generator of its own. Knows neither model nor HTTP.

The same seed gives the same tokens on the same logits, whatever was served before. Ties are
ordered by the lowest id.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forward_serve.errors import EngineError
from forward_serve.serving.request import SamplingParams

SEED_MASK = (1 << 64) - 1  # the dialect's seeds are signed 64-bit numbers, the generator's are not


class Sampler:
    """Draws the tokens of one reply from its logits."""

    def __init__(self, params: SamplingParams, vocab_bound: int) -> None:
        assert not params.is_greedy, "a greedy request is not sampled"
        self._params = params
        self._vocab_bound = vocab_bound
        seed = None if params.seed is None else params.seed & SEED_MASK
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def __call__(self, logits: NDArray[np.float32]) -> int:
        """Draw an id below the vocabulary bound from one row of logits [V]. Raises EngineError on a row without a maximum."""
        scores = logits[: self._vocab_bound].astype(np.float64)
        highest = scores.max()
        if not np.isfinite(highest):
            raise EngineError(f"sampling: the highest logit is {highest}; a forward gives finite logits")
        with np.errstate(over="ignore"):  # at a tiny temperature a share is 0 or 1
            weights = np.exp((scores - highest) / self._params.temperature)
        ids = self._candidates(scores, weights)
        cumulative = np.cumsum(weights[ids])
        drawn = np.searchsorted(cumulative, self._generator.random() * cumulative[-1], side="right")
        return int(ids[min(int(drawn), len(ids) - 1)])

    def _candidates(self, scores: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the ids that may be drawn: the top_k best, of these the fewest that hold a share of top_p."""
        top_k, top_p = self._params.top_k, self._params.top_p
        if top_p == 1.0 and not 0 < top_k < len(scores):
            return np.arange(len(scores))
        ids = np.argsort(-scores, kind="stable")
        if top_k > 0:
            ids = ids[:top_k]
        if top_p < 1.0:
            shares = np.cumsum(weights[ids])
            before = shares - weights[ids]
            ids = ids[: max(1, int(np.count_nonzero(before < top_p * shares[-1])))]
        return ids
