"""Penalties and logit bias of one reply, on one row of logits at a time. Knows neither model nor loop.

In vLLM's order and arithmetic, float32. First the biases are added. Then the logit of a token seen in prompt or reply is divided
by the repetition penalty if it is positive, multiplied by it if not. Then, for tokens of the reply alone, the frequency penalty
is taken off as often as the token came, and the presence penalty once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forward_serve.serving.request import Penalties

LIMITS = np.finfo(np.float32)


class LogitRules:
    """What a request wants changed in its logits, and what of its reply that depends on."""

    def __init__(
        self, penalties: Penalties, logit_bias: Sequence[tuple[int, float]], prompt_ids: Sequence[int], vocab_bound: int
    ) -> None:
        self._penalties = penalties
        self._repetition = np.float32(np.clip(penalties.repetition, LIMITS.tiny, LIMITS.max))
        self._biased_ids = np.array([token for token, _ in logit_bias], np.intp)
        self._biases = np.array([bias for _, bias in logit_bias], np.float32)
        self._counts = np.zeros(vocab_bound, np.float32)  # of the reply
        self._is_seen = np.zeros(vocab_bound, np.bool_)  # in prompt or reply
        self._is_seen[list(prompt_ids)] = True

    def apply(self, logits: NDArray[np.float32]) -> None:
        """Change a row [V] in place; ids from the vocabulary bound on stay as they are. Finite logits stay finite."""
        bounded = logits[: len(self._counts)]
        bounded[self._biased_ids] += self._biases
        with np.errstate(over="ignore"):
            if self._repetition != 1:
                seen = bounded[self._is_seen]
                bounded[self._is_seen] = np.where(seen > 0, seen / self._repetition, seen * self._repetition)
            bounded -= np.float32(self._penalties.frequency) * self._counts
            bounded -= np.float32(self._penalties.presence) * (self._counts > 0)
        np.clip(bounded, LIMITS.min, LIMITS.max, out=bounded)

    def count(self, token: int) -> None:
        """Take a token of the reply."""
        self._counts[token] += 1
        self._is_seen[token] = True
