"""Why nothing was drafted. A closed set, so that "nothing to do" and "something is off" never look alike."""

from __future__ import annotations

import enum


class Silence(enum.StrEnum):
    """A head's last word, or why it was never asked; as it stands in the `[spec]` line."""

    NO_MATCH = "no-match"  # lookup: no suffix of the stream occurred before
    NO_TAPS = "no-taps"  # dflash: the tap rows do not account for exactly the positions that were run
    OUT_OF_STEP = "out-of-step"  # lookup: the committed stream is not as long as the base's position
    BUDGET = "budget"  # never asked: the budget left no place for a draft
    ENDED = "ended"  # never asked: the reply ended before
