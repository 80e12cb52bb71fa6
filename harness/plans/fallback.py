"""What the check of the fallback rule asks: the same few streams of servers that give up at different bars and windows."""

from __future__ import annotations

from collections.abc import Iterable

from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import completion
from harness.plans.starts import PLAIN, draft, lookup
from harness.records.fixture import Fixture
from harness.records.plan import Start, Tier

K = 4
WHOLE_REPLY = 24  # tokens that a stream prescribes
# Rounds of exactly 2 tokens (constant): a bar of 2 keeps, 2.5 throws at the window. Rounds of 1 (decoy): every bar above 1 throws
# at the window. Whole rounds first and then none (burst): 2.5 throws by the last window alone.
ROLES = ("constant", "decoy", "burst")
MUTATION_RULES = ((2.0, 3), (2.5, 3))
GATE_RULES = ((1.5, 1), (2.0, 3), (2.5, 3), (1.5, 5))
PACK_RULES = ((4.5, 3), (2.0, 1), (3.0, 2), (6.0, 5))
DEEP_RULES = tuple((below, window) for window in (1, 3, 5) for below in (1.0, 1.5, 2.0, 2.5, 3.0, 4.5, 6.0))


def fallback_start(below: float, window: int) -> Start:
    """Return the lookup start that gives up when the mean of its last `window` rounds is under `below` tokens."""
    return lookup(f"fallback-{below:g}-{window}", K, fallback_below=below, fallback_window=window)


def pack_fallback_starts(tier: Tier) -> list[Start]:
    """Return draft starts of both generations that give up: few rounds of a table pack reach so high a bar."""
    rules = PACK_RULES if tier is Tier.DEEP else PACK_RULES[:1]
    return [
        draft(f"{pack}-fallback-{below:g}-{window}", pack, fallback_below=below, fallback_window=window)
        for pack in ("mixed", "mixed2")
        for below, window in rules
    ]


def _fallback_round(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    rules = {Tier.MUTATION: MUTATION_RULES, Tier.GATE: GATE_RULES, Tier.DEEP: DEEP_RULES}[tier]
    starts = [fallback_start(below, window) for below, window in rules]
    roles = ROLES if tier is not Tier.DEEP else dict.fromkeys(stream.role for stream in fixture.streams)
    for role in roles:
        for stream in fixture.of_role(role):
            yield from ask(completion(stream, WHOLE_REPLY, "fallback-round"), PLAIN, *starts)


SLICES: dict[str, Slice] = {"fallback-round": _fallback_round}
