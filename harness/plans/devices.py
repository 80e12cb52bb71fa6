"""What the checks of devices ask: host arms and device arms under the tracer, at start and while answering."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import completion
from harness.plans.seed import seed_requests
from harness.plans.starts import DEVICE, MAIN, NPU_DRAFT_2, NPU_LOOKUP, NPU_PLAIN
from harness.records.fixture import Fixture
from harness.records.plan import Request, Tier

WHOLE_REPLY = 24  # tokens that a stream prescribes; what comes after them, a device may say otherwise
OF_SECOND_GENERATION = (("main-1", WHOLE_REPLY), ("hit-1", WHOLE_REPLY), ("burst-1", WHOLE_REPLY), ("main-1", 5), ("main-1", 1))
BESIDE_SEED = ("decoy-1", "burst-1")  # drafts that never land, and a head that falls silent


def device_requests(fixture: Fixture, tier: Tier, check: str) -> Iterable[Request]:
    """Yield what every device arm is asked: the seed plan and few more, all greedy ones on prescribed replies."""
    for request in seed_requests(fixture):
        yield msgspec.structs.replace(request, checks=(check,))
    streams = fixture.streams if tier is Tier.DEEP else tuple(map(fixture.stream, BESIDE_SEED))
    for stream in streams:
        yield completion(stream, WHOLE_REPLY, check)


def second_generation(fixture: Fixture, check: str) -> Iterable[Asked]:
    """Yield what a pack of generation 2 is asked on a device: few replies, all among those that `npu/plain` is asked anyway."""
    for name, budget in OF_SECOND_GENERATION:
        yield from ask(completion(fixture.stream(name), budget, check), NPU_PLAIN, NPU_DRAFT_2)


def _device_opens(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    devices = (NPU_PLAIN,) if tier is Tier.MUTATION else DEVICE
    return ask(completion(fixture.of_role("main")[0], 5, "device-opens"), *MAIN, *devices)


def _device_passes(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    check = "device-passes"
    if tier is Tier.MUTATION:
        for name, budget in (("hit-1", WHOLE_REPLY), ("main-1", 5)):
            yield from ask(completion(fixture.stream(name), budget, check), NPU_PLAIN, NPU_LOOKUP, NPU_DRAFT_2)
        return
    for request in device_requests(fixture, tier, check):
        yield from ask(request, *DEVICE)
    yield from second_generation(fixture, check)


SLICES: dict[str, Slice] = {"device-opens": _device_opens, "device-passes": _device_passes}
