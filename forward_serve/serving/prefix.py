"""What the KV cache still holds of the last request, and how much of it the next one can use. Knows no loop and no text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from forward_serve.taps import TapSink


class ResumableBase(Protocol):
    """A base whose first positions can be kept for the next request."""

    tap_sink: TapSink | None

    @property
    def num_positions(self) -> int:
        """Positions that the KV cache holds."""

    def truncate(self, num_positions: int) -> None:
        """Cut the KV cache to its first positions."""

    def reset(self) -> None:
        """Start again at position 0 with no taps."""


class PrefixCache:
    """Prepares a base for each request. Where it is off, every request starts at position 0."""

    def __init__(self, base: ResumableBase, *, is_on: bool) -> None:
        self._base = base
        self._is_on = is_on
        self._ids: list[int] = []  # the tokens of the positions that may be resumed, in order

    def resume(self, prompt_ids: Sequence[int]) -> int:
        """Keep the positions that begin this prompt, all but its last token at most, and return their number.

        No taps are kept: those of the positions that are not run again would be missing in front of the new ones.
        """
        num_kept = min(num_common(self._ids, prompt_ids), len(prompt_ids) - 1)
        self._ids = self._ids[:num_kept]
        if num_kept:
            self._base.truncate(num_kept)
            if self._base.tap_sink is not None:
                self._base.tap_sink.clear()
        else:
            self._base.reset()
        return num_kept

    def remember(self, ids: Sequence[int]) -> None:
        """Take the request's prompt and reply: its first tokens are those of the positions that the base holds now."""
        if self._is_on:
            self._ids = list(ids[: self._base.num_positions])


def num_common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two streams have in common from their begin."""
    pairs = zip(first, second, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
