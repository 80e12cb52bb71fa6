"""The path that a reply must take under a draft pack: the loop's rules over blocks that depend on the sequence alone.

What is drafted behind a token is a function of the sequence up to it: not of the budget, nor of how many drafts are used. So one
block for each place of a sequence serves every walk over it. It does not know how a block is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.oracle.loop import Asked, Proposal, Rules, Said, Trace, walked
from harness.records.expectation import Block

# What a lead must be, as a share of the largest score, so that rounding cannot turn it round. Float32 moves a score of fabricated
# models by up to 2e-5 of the largest, bf16 by up to 0.15. Of smaller leads nothing is predicted: two right engines may differ.
FLOAT32_MARGIN = 2.0**-13
BF16_MARGIN = 2.0**-2


@dataclass(frozen=True, slots=True)
class Journey:
    """A reply that is known, on its way under the rules of one start."""

    prompt_ids: tuple[int, ...]
    said: Said
    rules: Rules

    def place(self, num_emitted: int) -> int:
        """Return where in the sequence the last of so many tokens of the reply stands."""
        return len(self.prompt_ids) + num_emitted - 1


def places_of(prompt_ids: tuple[int, ...], said: Said) -> range:
    """Return where in prompt and reply drafts may be asked for: behind each token of the reply but one that ends it."""
    num_ids = len(prompt_ids) + len(said.ids)
    return range(len(prompt_ids), num_ids if said.end_token is not None else num_ids - 1)


@dataclass(frozen=True, slots=True)
class PackPath:
    """A walked path, and how certain the drafts on it are."""

    trace: Trace
    margin: float  # the smallest lead of any draft that was proposed
    deciding_margin: float  # the same over slots 1 .. accepted + 1 of each round: those that set the path


def pack_path(journey: Journey, blocks: Mapping[int, Block]) -> PackPath | None:
    """Walk a journey over the blocks that are known, by place; None where one that it needs is not."""
    unknown: list[int] = []

    def head(asked: Asked) -> Proposal:
        place = journey.place(asked.num_emitted)
        if place not in blocks:
            unknown.append(place)
            return Proposal()
        return Proposal(blocks[place].drafts, is_paid=True)

    trace = walked(journey.said, journey.rules, head)
    if unknown:
        return None
    leads = [(step, blocks[journey.place(step.index + 1)].margins) for step in trace.rounds]
    proposed = [lead for step, margins in leads for lead in margins[: len(step.drafts)]]
    deciding = [lead for step, margins in leads for lead in margins[: min(step.accepted + 1, len(step.drafts))]]
    return PackPath(trace, min(proposed, default=1.0), min(deciding, default=1.0))


def path_without_taps(journey: Journey) -> Trace:
    """Return the path of a resumed request: the head lacks rows of skipped positions, and says so at no cost, each time."""
    return walked(journey.said, journey.rules, lambda _asked: Proposal())
