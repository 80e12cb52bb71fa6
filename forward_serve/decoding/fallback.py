"""The fallback rule: when speculation does not pay, stop it for the rest of the request. Knows neither model nor drafter."""

from __future__ import annotations

from collections import deque


class SpecFallback:
    """Switches off when the mean of the last `window` records is under `below`; exactly `below` keeps drafting.

    `below` is in tokens a round, 0 = no rule; `window` is in rounds, at least 1. Once off it stays off.
    """

    def __init__(self, below: float, window: int) -> None:
        self._below = below
        self._recent: deque[int] = deque(maxlen=window)
        self._num_records = 0
        self._fell_back_at: int | None = None

    @property
    def fell_back_at(self) -> int | None:
        """How many records had been made when the rule threw; None while speculation is on."""
        return self._fell_back_at

    @property
    def is_off(self) -> bool:
        """Whether speculation is off for the rest of the request."""
        return self._fell_back_at is not None

    def record(self, num_emitted_tokens: int) -> None:
        """Add one round's emitted tokens (take + 1), or 1 for an attempt that was paid for and proposed nothing."""
        self._recent.append(num_emitted_tokens)
        self._num_records += 1
        window = self._recent.maxlen
        if not self.is_off and len(self._recent) == window and sum(self._recent) / window < self._below:
            self._fell_back_at = self._num_records
