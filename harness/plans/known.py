"""What the law on known faults asks: nothing of its own. It judges what the checks of the pinned faults find."""

from __future__ import annotations

from collections.abc import Iterator

from harness.plans.build import Asked, Slice
from harness.records.fixture import Fixture
from harness.records.plan import Tier


def known_faults(_fixture: Fixture, _tier: Tier) -> Iterator[Asked]:
    """Ask nothing."""
    return iter(())


SLICES: dict[str, Slice] = {"known-faults": known_faults}
