"""The target's logprobs: the log-softmax, in float64, of a row of logits as the model gave it. Knows no answer's format.

Raw means before temperature, penalties, bias and grammar, as is vLLM's default. The sum runs over the ids below the vocabulary
bound: padding has no probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forward_serve.errors import EngineError


@dataclass(frozen=True, slots=True)
class Scored:
    """One token with its logprob."""

    token: int
    data: bytes  # the token's
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """A chosen token, and the best of its row, from the highest logprob down, ties from the lowest id up."""

    chosen: Scored
    best: tuple[Scored, ...]


class Scorer:
    """Scores the chosen tokens of one reply; `num_best` tokens of each row stand beside the chosen one."""

    def __init__(self, token_bytes: Callable[[int], bytes], vocab_bound: int, num_best: int) -> None:
        self._token_bytes = token_bytes
        self._vocab_bound = vocab_bound
        self._num_best = num_best

    def __call__(self, logits: NDArray[np.float32], token: int) -> TokenLogprobs:
        """Score `token` in the row [V] that it was chosen from. Raises EngineError on a row without a maximum."""
        logprobs = log_softmax(logits[: self._vocab_bound])
        best = best_ids(logits[: self._vocab_bound], self._num_best)
        return TokenLogprobs(self._scored(token, logprobs), tuple(self._scored(id_, logprobs) for id_ in best))

    def _scored(self, token: int, logprobs: NDArray[np.float64]) -> Scored:
        return Scored(token, self._token_bytes(token), float(logprobs[token]))


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the logprobs [n] of a row of logits [n]. Raises EngineError on a row without a maximum."""
    scores = logits.astype(np.float64)
    highest = scores.max()
    if not np.isfinite(highest):
        raise EngineError(f"logprobs: the highest logit is {highest}; a forward gives finite logits")
    scores -= highest
    scores -= np.log(np.exp(scores).sum())
    return scores


def best_ids(logits: NDArray[np.float32], number: int) -> list[int]:
    """Return the ids of the `number` largest of a row, the largest first, of equal ones the lowest id first."""
    number = min(number, len(logits))
    if number == 0:
        return []
    threshold = np.partition(logits, -number)[-number]
    candidates = np.flatnonzero(logits >= threshold)  # more than `number` where some are equal
    order = np.argsort(-logits[candidates], kind="stable")[:number]
    ids: list[int] = candidates[order].tolist()
    return ids
