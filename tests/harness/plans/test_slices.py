"""The slices of the families on replies together: each tier bigger than the last, and all of them one plan."""

from __future__ import annotations

import pytest

from harness.checks.registry import ALL_CHECKS
from harness.plans.build import build_plan
from harness.plans.fit import fitted
from harness.plans.registry import SLICES
from harness.records.plan import Tier
from harness.subjects.description import load_description
from tests.harness.checks.ideal import fixture
from tests.harness.plans.planning import FAMILIES, plan_of, size

MOST_STARTS = {"prefix-cache": 5, "drafter-independence": 4}  # of a mutation slice: one for each cached arm; the ties' container
MOST_REQUESTS = {"prefix-cache": 47}  # each of the four has a sequence of its own


def test_there_is_a_slice_for_each_law_of_the_families() -> None:
    assert set(FAMILIES) == {
        "same-reply",
        "same-sampled-reply",
        "budget-prefix",
        "drafter-independence",
        "stop-cut",
        "end-token",
        "context-end",
        "stream-join",
        "request-order",
        "cancel-frees",
        "prefix-cache",
        "concurrent-neighbours",
        "refusals",
        "logprobs-target",
        "grammar-valid",
    }


@pytest.mark.parametrize("check_id", FAMILIES)
def test_a_plan_grows_from_tier_to_tier_and_names_its_check(check_id: str) -> None:
    small, gate, deep = (plan_of(check_id, tier) for tier in (Tier.MUTATION, Tier.GATE, Tier.DEEP))
    assert size(small) < size(gate) < size(deep)
    assert size(small) <= MOST_REQUESTS.get(check_id, 32)
    assert len(small.starts) <= MOST_STARTS.get(check_id, 3)
    for plan in (small, gate, deep):
        assert all(any(check_id in request.checks for request in start.requests) for start in plan.starts)


@pytest.mark.parametrize("check_id", FAMILIES)
def test_the_same_fixture_gives_the_same_plan(check_id: str) -> None:
    assert plan_of(check_id, Tier.GATE) == plan_of(check_id, Tier.GATE)


@pytest.mark.parametrize("tier", Tier)
def test_all_slices_merge_into_one_plan(tier: Tier) -> None:
    plan = build_plan(fixture(), tier, SLICES, list(SLICES))
    for start in plan.starts:
        assert len({request.id for request in start.requests}) == len(start.requests)
        if start.reference is not None:
            refused = [request for request in start.requests if request.expect != 200]
            wanted = {request.id for request in start.requests if "same-reply" in request.checks} - {one.id for one in refused}
            assert wanted <= {request.id for request in plan.start(start.reference).requests}


def test_the_whole_gate_keeps_its_budget_of_starts_and_requests() -> None:
    plan = build_plan(fixture(), Tier.GATE, SLICES, list(SLICES))
    asked = fitted(plan, load_description("forward-serve"), fixture(), {check.id: check.needs for check in ALL_CHECKS})
    assert len(asked.starts) <= 54
    assert size(asked) <= 1460
