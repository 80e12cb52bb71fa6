"""Plans of single checks over the streams of the ideal fixture. For tests only."""

from __future__ import annotations

from harness.plans import cuts, grammar, logprobs, neighbours, order, prefix, refusals, replies
from harness.plans.build import build_plan
from harness.records.plan import Plan, Request, Tier
from tests.harness.checks.ideal import fixture

PLANS = (replies, cuts, order, refusals, prefix, grammar, logprobs, neighbours)
FAMILIES = {check: slice_of for plan in PLANS for check, slice_of in plan.SLICES.items()}


def plan_of(check_id: str, tier: Tier) -> Plan:
    """Return the plan that one check asks for."""
    return build_plan(fixture(), tier, FAMILIES, [check_id])


def size(plan: Plan) -> int:
    """Return how many requests a plan has."""
    return sum(len(start.requests) for start in plan.starts)


def asked(plan: Plan, start_id: str, check_id: str) -> list[Request]:
    """Return the requests of a start that a check reads."""
    return [request for request in plan.start(start_id).requests if check_id in request.checks]
