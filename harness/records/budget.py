"""What one start of a subject may use, and why it ended. Knows neither processes nor mutants."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """What one start may use."""

    cpu_s: float  # an endless loop burns it
    wall_s: float  # the backstop for what waits instead of burning


class Cause(enum.StrEnum):
    """Why a subject ended."""

    ENDED = "ended"  # by us
    EXITED = "exited"  # by itself, whatever its status
    CPU_BUDGET = "cpu-budget"  # it had used up its CPU seconds
    LOST = "lost"  # nobody could say
