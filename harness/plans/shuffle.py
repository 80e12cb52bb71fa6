"""A plan asked in another order, with cases that no other run asks: both drawn from one seed, which the plan carries.

What a law on order reads stays as it is, piece by piece; everything else may come at any place between. It knows no check by name but
the one that fresh cases are for.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

import msgspec

from harness.plans.replies import SAMPLERS
from harness.plans.requests import completion
from harness.plans.starts import MAIN
from harness.plans.streams import continued
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Plan, Request, Start

NUM_SAMPLED, NUM_GREEDY, NUM_STOPPED = 8, 8, 4
GREEDY_CHECK, SAMPLED_CHECK = "same-reply", "same-sampled-reply"
FRESH = "fresh"
MOST_SEEDS = 1 << 31


def with_fresh_cases(plan: Plan, fixture: Fixture, seed: int) -> Plan:
    """Return a plan whose main starts are asked more: beginnings of streams, budgets, stops, samplers and seeds by chance.

    Only for checks that the plan has. Beginnings of prescribed replies stay on certified paths.
    """
    drawn = list(_drawn(fixture, random.Random(f"{FRESH}/{seed}")))
    fresh = [request for request in drawn if set(request.checks) <= set(plan.checks)]
    names = {start.id for start in MAIN}
    starts = tuple(
        msgspec.structs.replace(start, requests=(*start.requests, *fresh)) if start.id in names else start
        for start in plan.starts
    )
    return msgspec.structs.replace(plan, starts=starts)


def shuffled(plan: Plan, seed: int, ordered: Collection[str], intact: Collection[str]) -> Plan:
    """Return a plan with its requests in another order, and the seed in it.

    Requests that a check of `ordered` reads, or that are sent at once, keep their order among themselves, and those that follow
    each other still do; starts of `intact` stay as they are.
    """
    starts = tuple(start if start.id in intact else _shuffled(start, seed, set(ordered)) for start in plan.starts)
    return msgspec.structs.replace(plan, starts=starts, shuffle=seed)


def _shuffled(start: Start, seed: int, ordered: set[str]) -> Start:
    pieces = list(_pieces(start.requests, ordered))
    kept = iter([piece for piece, is_kept in pieces if is_kept])
    random.Random(f"{start.id}/{seed}").shuffle(pieces)
    requests = [request for piece, is_kept in pieces for request in (next(kept) if is_kept else piece)]
    return msgspec.structs.replace(start, requests=tuple(requests))


def _pieces(requests: Sequence[Request], ordered: set[str]) -> Iterator[tuple[tuple[Request, ...], bool]]:
    """Yield pieces that stay whole: what keeps its order, as long as it goes, and every other request by itself."""
    for is_kept, those in groupby(requests, key=lambda request: bool(request.group or ordered.intersection(request.checks))):
        if is_kept:
            yield tuple(those), True
        else:
            yield from (((request,), False) for request in those)


def _drawn(fixture: Fixture, chance: random.Random) -> Iterator[Request]:
    """Yield requests on beginnings of streams, each at another place."""
    places = [(stream, gone) for stream in fixture.streams for gone in range(len(stream.reply_ids) - 1)]
    chosen = chance.sample(places, NUM_SAMPLED + NUM_GREEDY + NUM_STOPPED)
    for number, (stream, gone) in enumerate(chosen):
        source = continued(stream, gone)
        budget = chance.randint(1, len(source.reply_ids))
        if number < NUM_SAMPLED:
            fields = {**chance.choice(SAMPLERS), "seed": chance.randrange(MOST_SEEDS)}
            yield completion(source, budget + 1, SAMPLED_CHECK, label=FRESH, **fields)
        elif number < NUM_SAMPLED + NUM_GREEDY:
            yield completion(source, budget, GREEDY_CHECK, label=FRESH)
        else:
            yield completion(source, len(source.reply_ids), GREEDY_CHECK, label=FRESH, stop=[_stop(source, chance)])


def _stop(source: Stream, chance: random.Random) -> str:
    """Return one to four characters of a reply."""
    begin = chance.randrange(len(source.reply))
    return source.reply[begin : begin + chance.randint(1, 4)]
