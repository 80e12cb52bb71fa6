"""How narrowly something is decided, and how far rounding moves it. It does not know what is decided.

Movements are held against ways of rounding that nothing is fitted on.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.errors import BoundError
from harness.fabricate.numerics import BF16, DEVICE, FLOAT32, HARSH, Numerics, noise_sample
from harness.fabricate.scores import largest_movement

_HELD_OUT_SEED = 1 << 20  # no noise sample that anything is fitted on has such a seed


class Movement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far one way of rounding moves any score, and how often that fits into the smallest gap."""

    largest: float
    ratio: float


class Gap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The smallest gap between the best and the second score over the tokenizer's ids, and where it is."""

    gap: float
    stream: str
    index: int  # of the reply token that is decided there; packs: of the token at the slot
    token: int
    runner_up: int


def held_out() -> tuple[Numerics, ...]:
    """Return the ways of rounding that certificates measure; nothing is fitted on any of them."""
    return (FLOAT32, BF16, HARSH, DEVICE, noise_sample(_HELD_OUT_SEED))


def movements_of(scores: NDArray[np.floating], moved: dict[str, NDArray[np.floating]], gap: float) -> dict[str, Movement]:
    """Return the largest movement of any score, for each way of rounding."""
    largest = {name: largest_movement(scores, other) for name, other in moved.items()}
    return {name: Movement(size, gap / size) for name, size in largest.items()}


def require_ratio(what: str, rounding: str, ratio: float, bound: float) -> None:
    """Raise BoundError where a gap is too small for what rounding moves."""
    if ratio < bound:
        raise BoundError(
            f"{what}: the smallest margin is {ratio:.2f} times what {rounding} moves, want {bound}; "
            "use fewer streams, a wider pack or another seed"
        )
