"""The path that a reply must take under a draft pack: the loop's rules over blocks that depend on the sequence alone.

What is drafted behind a token is a function of the sequence up to it: not of the budget, nor of how many drafts are used. So one
block for each place of a sequence serves every walk over it. It does not know how a block is made.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.oracle.loop import Asked, Proposal, Rules, Said, Trace, walked
from harness.records.expectation import Drafting

# Rounding moves a score of these models by up to 2e-5 of the largest in float32. A choice that needs less than six times as
# much to be changed is one on which two right engines may differ: nothing is predicted then.
SMALLEST_MARGIN = 2.0**-13


@dataclass(frozen=True, slots=True)
class Journey:
    """A reply that is known, on its way under the rules of one start."""

    prompt_ids: tuple[int, ...]
    said: Said
    rules: Rules

    def place(self, asked: Asked) -> int:
        """Return where in the sequence drafts are asked for."""
        return len(self.prompt_ids) + asked.num_emitted - 1


def places_of(prompt_ids: tuple[int, ...], said: Said) -> range:
    """Return where in prompt and reply drafts may be asked for: behind each token of the reply but one that ends it."""
    num_ids = len(prompt_ids) + len(said.ids)
    return range(len(prompt_ids), num_ids if said.end_token is not None else num_ids - 1)


@dataclass(frozen=True, slots=True)
class PackPath:
    """A walked path, and how certain the drafts on it are."""

    trace: Trace
    margin: float  # the smallest of all drafts that were proposed

    @property
    def is_certain(self) -> bool:
        """Whether no rounding of a right engine can change a draft."""
        return self.margin >= SMALLEST_MARGIN


def pack_path(journey: Journey, drafting: Drafting) -> PackPath | None:
    """Walk a journey over blocks that are known; None where one that it needs is not."""
    margins = [1.0]
    unknown: list[int] = []

    def head(asked: Asked) -> Proposal:
        place = journey.place(asked)
        block = drafting.blocks.get(place)
        if block is None:
            unknown.append(place)
            return Proposal()
        margins.extend(block.margins[: asked.room])
        return Proposal(block.drafts, is_paid=True)

    trace = walked(journey.said, journey.rules, head)
    return None if unknown else PackPath(trace, min(margins))


def path_without_taps(journey: Journey) -> Trace:
    """Return the path of a resumed request: the head lacks rows of skipped positions, and says so at no cost, each time."""
    return walked(journey.said, journey.rules, lambda _asked: Proposal())
