from __future__ import annotations

import pytest

from harness.plans.build import build_plan
from harness.plans.registry import SLICES
from harness.plans.seed import seed_requests
from harness.records.plan import Plan, Tier
from tests.harness.checks.ideal import fixture


def plan_of(tier: Tier) -> Plan:
    return build_plan(fixture(), tier, SLICES, tuple(SLICES))


def test_the_slices_begin_with_the_seed_plans() -> None:
    assert next(iter(SLICES)) == "same-reply"


def test_a_gate_plan_starts_with_the_main_arms_and_their_seed_requests_first() -> None:
    plan = plan_of(Tier.GATE)
    assert [start.id for start in plan.starts[:3]] == ["plain", "lookup", "draft"]
    seeds = [request.id for request in seed_requests(fixture())]
    for start in plan.starts[:3]:
        assert sorted(request.id for request in start.requests[: len(seeds)]) == sorted(seeds)


@pytest.mark.parametrize("tier", list(Tier))
def test_a_plan_of_all_checks_asks_something_for_each(tier: Tier) -> None:
    plan = plan_of(tier)
    tagged = {check for start in plan.starts for request in start.requests for check in request.checks}
    assert set(plan.checks) == set(SLICES)
    assert set(SLICES) - tagged == {"near-ties", "known-faults"}  # they read what the other checks found


def test_the_gate_stays_within_its_starts() -> None:
    assert len(plan_of(Tier.GATE).starts) <= 57
