"""What the law on refusals is asked."""

from __future__ import annotations

import re

from harness.records.plan import Tier
from tests.harness.plans.planning import asked, plan_of


def test_a_refused_start_has_a_pattern_and_one_request_that_is_never_served() -> None:
    plan = plan_of("refusals", Tier.DEEP)
    refused = [start for start in plan.starts if start.expect == "refused"]
    assert len(refused) > 15
    for start in refused:
        assert re.compile(start.refusal).pattern
        assert [(request.path, request.role) for request in start.requests] == [("/health", "never-served")]


def test_the_gate_refuses_few_starts_and_the_smallest_plan_two_drafters() -> None:
    def names(tier: Tier) -> list[str]:
        return [start.id.removeprefix("refused/") for start in plan_of("refusals", tier).starts if start.expect == "refused"]

    gate = ["two-drafters", "unknown-flag", "fallback-alone", "pack-hidden", "model-truncated", "npu-missing-device"]
    assert names(Tier.GATE) == [*gate, "pack-no-candidates"]
    assert names(Tier.MUTATION) == ["two-drafters"]


def test_a_probe_follows_each_bad_body() -> None:
    requests = asked(plan_of("refusals", Tier.GATE), "lookup", "refusals")
    roles = [request.role for request in requests]
    assert roles == ["alone", *["refused", "probe"] * (len(roles) // 2)]


def test_one_body_is_too_large_and_answered_so() -> None:
    requests = asked(plan_of("refusals", Tier.GATE), "lookup", "refusals")
    (large,) = [request for request in requests if request.expect == 413]
    assert len(large.raw or "") > 1 << 20
