"""Which starts are made cold, and that each launcher gets its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.records.plan import Plan, Start, Tier
from harness.records.recording import ArmFacts, Declared
from harness.subjects.mixed import MixedLauncher, cold_starts

MODEL = Path("/model")


def start(name: str, arm: str, **fields: Any) -> Start:
    return Start(id=name, arm=arm, model="m", requests=(), **fields)


PLAIN, AGAIN, LOOKUP, SWEPT = (
    start("plain", "plain"),
    start("repeat/plain", "plain"),
    start("lookup", "lookup"),
    start("k-1", "lookup"),
)
REFUSED = start("refused/flag", "lookup", expect="refused", refusal="--flag")
REFUSED_TOO = start("refused/model", "plain", expect="refused", refusal="model")
CACHED, ON_DEVICE, DEVICE_TOO = start("cached", "cached"), start("npu", "npu"), start("npu/lookup", "npu-lookup")
PLAN = Plan(
    tier=Tier.GATE,
    recipe="r",
    starts=(PLAIN, LOOKUP, AGAIN, SWEPT, REFUSED, REFUSED_TOO, CACHED, ON_DEVICE, DEVICE_TOO),
    checks=(),
)
DECLARED = Declared(
    arms={
        "plain": ArmFacts(),
        "lookup": ArmFacts(drafter="lookup"),
        "cached": ArmFacts(prefix_cache=True),
        "npu": ArmFacts(device="/dev/accel/accel0"),
        "npu-lookup": ArmFacts(drafter="lookup", device="/dev/accel/accel0"),
    }
)


class Told:
    """A launcher that keeps what it was told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.told: list[str] = []
        self._error = error

    def start(self, start: Start, *_: Any, **__: Any) -> str:
        self.told.append(start.id)
        return start.id

    refused = start

    def close(self) -> None:
        self.told.append("closed")
        if self._error:
            raise self._error


def test_the_first_start_with_each_drafter_is_cold_the_first_on_a_device_and_the_first_that_must_refuse() -> None:
    assert cold_starts(PLAN, DECLARED) == {"plain", "lookup", "refused/flag", "npu"}


def test_each_launcher_is_given_its_own_starts_and_both_are_closed() -> None:
    cold, warm = Told(), Told()
    mixed = MixedLauncher(cold, warm, cold_starts(PLAN, DECLARED))  # type: ignore[arg-type]
    for each in (PLAIN, LOOKUP, AGAIN, SWEPT):
        mixed.start(each, MODEL)
    mixed.refused(REFUSED, MODEL)
    mixed.close()
    assert cold.told == ["plain", "lookup", "refused/flag", "closed"]
    assert warm.told == ["repeat/plain", "k-1", "closed"]


def test_the_cold_launcher_is_closed_where_the_warm_one_cannot_be() -> None:
    cold, warm = Told(), Told(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        MixedLauncher(cold, warm, ()).close()  # type: ignore[arg-type]
    assert cold.told == ["closed"]
