"""What the law on requests that are sent at once is asked: requests of every kind, each alone first and then all together."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harness.oracle.constraints import FIXED
from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import completion, streamed
from harness.plans.seed import SEED, TEMPERATURE
from harness.plans.starts import LOOKUP, MAIN, PLAIN
from harness.records.fixture import Fixture
from harness.records.plan import Request, Start, Tier

CHECK = "concurrent-neighbours"
MARKERS = (90, 91, 92)  # ids that no prescribed reply holds
SAYS = 100  # a bias that decides


def concurrent_neighbours(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Each request alone, then all at once; at leisure several times, and all streams."""
    starts: tuple[Start, ...] = (PLAIN, LOOKUP) if tier is Tier.MUTATION else MAIN
    requests = list(_requests(fixture, tier))
    for request in requests:
        if request.leave_after_chunks is None:
            yield from ask(request, *starts)
    for turn in range(1, 6 if tier is Tier.DEEP else 2):
        for request in requests:
            yield from ask(_together(request, turn), *starts)


def _requests(fixture: Fixture, tier: Tier) -> Iterator[Request]:
    first, second, third, fourth = fixture.of_role("main")[:4]
    yield completion(fixture.stream("hit-1"), 24, CHECK)
    yield completion(first, 24, CHECK, stop=[first.reply[6:8]])
    yield completion(second, 24, CHECK, temperature=TEMPERATURE, seed=SEED)
    yield streamed(third, 17, CHECK)
    yield completion(fourth, 9, CHECK, logit_bias={str(MARKERS[0]): SAYS})
    yield streamed(fixture.stream("hit-2"), 7, CHECK, logit_bias={str(MARKERS[1]): SAYS})
    yield completion(first, 6, CHECK, logprobs=5)
    refused = completion(first, 0, CHECK, role="refused")
    yield msgspec.structs.replace(refused, expect=400, refusal="max_tokens")
    if tier is Tier.MUTATION:
        return
    yield completion(fourth, 12, CHECK, label=FIXED.name, **FIXED.fields)
    yield streamed(second, 400, CHECK, role="cancelled", leave_after_chunks=3)
    for stream in fixture.streams if tier is Tier.DEEP else ():
        yield completion(stream, 23, CHECK)


def _together(request: Request, turn: int) -> Request:
    role = " ".join((*request.roles, "together"))
    return msgspec.structs.replace(request, id=f"{request.id}/together-{turn}", role=role, group=f"together-{turn}")


SLICES: dict[str, Slice] = {CHECK: concurrent_neighbours}
