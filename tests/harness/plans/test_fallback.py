from __future__ import annotations

import pytest

from harness.plans.build import build_plan
from harness.plans.fallback import SLICES, fallback_start
from harness.records.plan import Tier
from tests.harness.checks.families import findings, run_of
from tests.harness.checks.ideal import Fault, fixture

CHECK = "fallback-round"
FAULTS = (
    Fault.OFF_IGNORED,
    Fault.NO_RECORD,
    Fault.RECORD_TAKE,
    Fault.WINDOW_IGNORED,
    Fault.MEAN_OF_ALL,
    Fault.BELOW_OR_EQUAL,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("tier", list(Tier))
def test_each_fault_of_the_rule_fails_the_check_on_the_slice_of_each_tier(fault: Fault, tier: Tier) -> None:
    assert findings(CHECK, run_of(CHECK, fault, tier=tier))


@pytest.mark.parametrize(("tier", "num_starts"), [(Tier.MUTATION, 2), (Tier.GATE, 4), (Tier.DEEP, 21)])
def test_the_rules_of_a_tier_have_a_start_each(tier: Tier, num_starts: int) -> None:
    plan = build_plan(fixture(), tier, SLICES, [CHECK])
    assert plan.starts[0].id == "plain"
    assert len(plan.starts) == num_starts + 1


@pytest.mark.parametrize("tier", [Tier.GATE, Tier.DEEP])
def test_windows_of_1_3_and_5_are_asked(tier: Tier) -> None:
    plan = build_plan(fixture(), tier, SLICES, [CHECK])
    assert {start.parameters["fallback_window"] for start in plan.starts if start.reference} == {1, 3, 5}


def test_a_fallback_start_is_named_by_its_bar_and_window() -> None:
    start = fallback_start(2.0, 3)
    assert (start.id, start.arm, start.reference) == ("fallback-2-3/lookup", "lookup", "plain")
    assert start.parameters == {"k": 4, "fallback_below": 2.0, "fallback_window": 3}
