"""What the check of device opens asks: one request of each arm, so that opens at start and while answering are both seen."""

from __future__ import annotations

from collections.abc import Iterable

from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import completion
from harness.plans.starts import MAIN
from harness.records.fixture import Fixture
from harness.records.plan import Tier


def _device_opens(fixture: Fixture, tier: Tier) -> Iterable[Asked]:
    del tier
    return ask(completion(fixture.of_role("main")[0], 5, "device-opens"), *MAIN)


SLICES: dict[str, Slice] = {"device-opens": _device_opens}
