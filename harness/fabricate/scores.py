"""What can be read off scores: the gap of a token, how far a score moved, who wins unbounded. It knows no model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.numerics import Floats

Tokens = NDArray[np.integer[Any]]


def gaps_of(scores: Floats, tokens: Tokens) -> NDArray[np.float64]:
    """Return score of the token minus the best other score, over the last axis; negative where the token loses."""
    own = np.take_along_axis(scores, tokens[..., None], axis=-1)[..., 0]
    return np.asarray(own - _without(scores, tokens).max(axis=-1), np.float64)


def runners_up(scores: Floats, tokens: Tokens, below: int) -> Tokens:
    """Return the best id under `below` that is not the token."""
    return np.asarray(_without(scores, tokens)[..., :below].argmax(axis=-1))


def largest_movement(scores: Floats, moved: Floats) -> float:
    """Return the largest absolute difference of any score."""
    return float(np.abs(moved.astype(np.float64) - scores).max())


def padded_share(scores: Floats, vocab: int) -> float:
    """Return the share of rows [..., V] whose unbounded argmax is at `vocab` or above."""
    return float(np.mean(scores.argmax(axis=-1) >= vocab))


def _without(scores: Floats, tokens: Tokens) -> Floats:
    others = scores.copy()
    np.put_along_axis(others, tokens[..., None], -np.inf, axis=-1)
    return others
