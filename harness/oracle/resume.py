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
    """What a request left behind: the first positions of a sequence, of which `ids` are known from its beginning on."""

    ids: Ids
    fewest: int  # positions that are certainly there
    most: int  # and that may be there: one more where it is not known whether the last token was run

    def resumed(self, prompt_ids: Ids) -> int | None:
        """Return how many positions a prompt resumes from; None where that hangs on what nobody knows."""
        found = {self._resumed(prompt_ids, self.fewest), self._resumed(prompt_ids, self.most)}
        return found.pop() if len(found) == 1 else None

    def _resumed(self, prompt_ids: Ids, num_positions: int) -> int | None:
        known = self.ids[:num_positions]
        others = len(prompt_ids) - 1  # all but the token that is run in any case
        common = num_equal(known, prompt_ids)
        if common == len(known) < min(num_positions, others):
            return None
        return min(common, others)


NOTHING = Left((), 0, 0)


def ran(ids: Ids, not_run: int | None) -> Left:
    """Return what a whole reply leaves: prompt and reply, but for the last token where no pass ran it (1, 0, None: not known)."""
    return Left(ids, len(ids) - (1 if not_run is None else not_run), len(ids) - (not_run or 0))


def num_prefilled(num_prompt_tokens: int, resumed: int, num_passes: int, width: int) -> int:
    """Return the positions that so many finished passes of prefill leave, `width` rows each, the last one maybe fewer."""
    return min(resumed + num_passes * width, num_prompt_tokens)


def num_prefill_passes(num_prompt_tokens: int, resumed: int, width: int) -> int:
    """Return the passes of one prefill."""
    return -(-(num_prompt_tokens - resumed) // width)
