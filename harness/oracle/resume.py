"""What a prefix cache holds after each request, and what the next one resumes from: the rule alone, over tokens that are known.

A request resumes from the positions that its prompt shares with the tokens run before, and runs at least its last token anew.
It does not know how a path was found; who ran what is told to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.oracle.loop import num_equal

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """What a request left behind: `num_positions` of a sequence of which `ids` are known, from its beginning on."""

    ids: Ids = ()
    num_positions: int = 0

    def resumed(self, prompt_ids: Ids) -> int | None:
        """Return how many positions a prompt resumes from; None where that hangs on a token that nobody knows."""
        known = self.ids[: self.num_positions]
        most = len(prompt_ids) - 1
        common = num_equal(known, prompt_ids)
        if common == len(known) < min(self.num_positions, most):
            return None
        return min(common, most)


NOTHING = Left()


def num_prefilled(prompt_ids: Ids, resumed: int, passes: int, width: int) -> int:
    """Return the positions that so many finished passes of prefill leave, `width` rows each, the last one maybe fewer."""
    return min(resumed + passes * width, len(prompt_ids))


def num_prefill_passes(num_prompt_tokens: int, resumed: int, width: int) -> int:
    """Return the passes of one prefill."""
    return -(-(num_prompt_tokens - resumed) // width)
