"""The `[spec]` line and `usage.spec`: two renderings of one record. Knows neither loop nor stream.

    [spec] id=cmpl-7 path=spec drafter=lookup rounds=5 drafted=20 accepted=6 plain=3 tokens=14 cached=0 fallback=- reason=-

One line for each request that took the engine, cancelled and failed ones too; a refused request prints none.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NOTHING = "-"  # as it stands in the line where there is nothing to say


class DecodingPath(enum.StrEnum):
    """Which of the two loops a request took."""

    SPEC = "spec"
    PLAIN = "plain"


class Ending(enum.StrEnum):
    """How a request left the engine. The broken ones stand in the `[spec]` line by this word."""

    REPLY = "reply"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SpecRecord:
    """What one request says of its path. The fields stand in the line's order."""

    id: str
    path: DecodingPath
    drafter: str  # none, lookup, dflash
    rounds: int
    drafted: int
    accepted: int
    plain: int
    tokens: int
    cached: int
    fallback: int | None  # records that had been made when the fallback rule threw
    reason: str  # "-" when there is nothing to say
    per_round: Sequence[tuple[Sequence[int], int]]  # (drafted ids, number accepted) of each round

    def line(self) -> str:
        """Render the log line, without its newline."""
        return (
            f"[spec] id={self.id} path={self.path} drafter={self.drafter} rounds={self.rounds} drafted={self.drafted}"
            f" accepted={self.accepted} plain={self.plain} tokens={self.tokens} cached={self.cached}"
            f" fallback={NOTHING if self.fallback is None else self.fallback} reason={self.reason}"
        )

    def usage(self) -> dict[str, Any]:
        """Render `usage.spec`: the line's values without the id, and every round."""
        return {
            "path": str(self.path),
            "drafter": self.drafter,
            "rounds": self.rounds,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "plain": self.plain,
            "tokens": self.tokens,
            "cached": self.cached,
            "fallback": self.fallback,
            "reason": self.reason,
            "per_round": [[list(ids), num_accepted] for ids, num_accepted in self.per_round],
        }
