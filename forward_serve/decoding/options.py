"""What a caller may ask of the loop. Knows no model, no drafter and no HTTP."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forward_serve.errors import EngineError

Row = NDArray[np.float32]  # [V]
Deliver = Callable[[int], bool]
Choose = Callable[[Row], int]


def take_all(_token: int) -> bool:
    """Take any token and let the reply go on: a deliver for callers without stops or end tokens."""
    return True


@dataclass(frozen=True, slots=True)
class Options:
    """How one reply is decoded. Raises EngineError on a value outside its range.

    `deliver` takes each token once, in order, and answers whether the reply goes on; it is not called after a False. It may
    raise to break the reply off: the token that it was given then counts as not delivered. A False for one of `end_tokens`
    ends the reply without counting the token; leave the set empty where end tokens are ordinary text. `choose` picks the
    token from the logits row before it (sampling, grammar); it takes no head, since drafts are verified greedily.
    """

    k: int  # most drafts of one round
    max_tokens: int  # budget of counted tokens
    fallback_below: float = 0.0  # mean of emitted tokens a round under which speculation is off; 0 = no rule
    fallback_window: int = 3  # rounds
    consume_last: bool = True  # whether a token that spends the budget is still run through the model
    deliver: Deliver = take_all
    end_tokens: frozenset[int] = frozenset()
    choose: Choose | None = None

    def __post_init__(self) -> None:
        if self.k < 0:
            raise EngineError(f"Options: k={self.k} is negative; give 0 or more drafts a round")
        if self.max_tokens < 1:
            raise EngineError(f"Options: max_tokens={self.max_tokens} is below 1; give a budget of at least one token")
        if not (math.isfinite(self.fallback_below) and self.fallback_below >= 0):
            raise EngineError(f"Options: fallback_below={self.fallback_below} is not a number >= 0; give 0 for no rule")
        if self.fallback_window < 1:
            raise EngineError(f"Options: fallback_window={self.fallback_window} is below 1; give at least one round")
