"""Another draw for the part of a recipe that missed a bound: which seed it has, and how often a part may be drawn.

The first draw has the recipe's own seed; the others follow from it, so that the same recipe gives the same bytes. It does not
know what a part is, nor how one is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from harness.fabricate.errors import BoundError

_STRIDE = 1 << 32  # the seeds of one recipe lie closer together, so that no draw of one part has a seed of another's
_Part = TypeVar("_Part")


def seed_of_draw(seed: int, number: int) -> int:
    """Return the seed of a part's draw, the first one being number 0."""
    return seed + number * _STRIDE


class Draws:
    """What each part missed until now; the number of a part's next draw follows from it. `most`: how often a part may be drawn."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._missed: dict[str, list[str]] = {}

    def sound(self, part: str, make: Callable[[int], _Part]) -> _Part:
        """Return the first draw of a part, from its next one on, that misses no bound; `make` is given its number.

        Raises BoundError as `miss` does; whatever else `make` raises goes through.
        """
        while True:
            try:
                return make(len(self._missed.get(part, [])))
            except BoundError as error:
                self.miss(part, error)

    def miss(self, part: str, error: BoundError) -> None:
        """Note that the latest draw of a part will not do. Raises BoundError with all that it missed when it was the last one."""
        missed = self._missed.setdefault(part, [])
        missed.append(str(error))
        if len(missed) == self._most:
            listed = "".join(f"\n  {one}" for one in missed)
            raise BoundError(f"{part}: drawn {self._most} times, and each draw missed a bound:{listed}") from error

    @property
    def missed(self) -> dict[str, list[str]]:
        """What was missed by each part that was drawn more than once, draw by draw."""
        return {part: list(missed) for part, missed in self._missed.items()}
