from __future__ import annotations

import pytest

from harness.plans.build import build_plan
from harness.plans.devices import SLICES
from harness.records.plan import Tier
from tests.harness.checks.ideal import fixture


@pytest.mark.parametrize("tier", list(Tier))
def test_each_main_arm_is_asked_one_request_under_the_tracer(tier: Tier) -> None:
    plan = build_plan(fixture(), tier, SLICES, ["device-opens"])
    assert [(start.id, len(start.requests)) for start in plan.starts] == [("plain", 1), ("lookup", 1), ("draft", 1)]
