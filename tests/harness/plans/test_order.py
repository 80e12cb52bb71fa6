"""What the laws on one request after another are asked."""

from __future__ import annotations

from harness.records.plan import Tier
from tests.harness.plans.planning import plan_of


def test_the_probe_alone_is_the_first_request_of_its_start_and_over_before_a_pass_fails() -> None:
    for tier in Tier:
        plan = plan_of("request-order", tier)
        for start in plan.starts:
            if start.id.startswith(("order", "cached")):
                first, second = start.requests[:2]
                assert first.role == "alone"
                assert second.role == "failed"
                assert len(first.prompt_ids) + first.max_tokens <= int(start.parameters["fail_pass"])
                assert second.max_tokens >= int(start.parameters["fail_pass"]) * 8


def test_the_arms_with_a_cache_are_asked_in_the_gate_what_the_others_are_and_the_same_probe_twice() -> None:
    plan = plan_of("request-order", Tier.GATE)
    asked = [request.id for request in plan.start("order/draft").requests]
    for name in ("cached/plain", "cached/lookup", "cached/draft"):
        assert [request.id for request in plan.start(name).requests] == [*asked, "hit-1/24/after-itself"]
    assert not any(start.id.startswith("cached") for start in plan_of("request-order", Tier.MUTATION).starts)


def test_the_over_long_disturbance_is_longer_than_the_context() -> None:
    plan = plan_of("request-order", Tier.GATE)
    (request,) = [one for one in plan.start("order/lookup").requests if "over-long" in one.roles]
    assert len(request.prompt_ids) >= 1024


def test_a_client_leaves_on_every_main_arm_with_the_same_probe_before_and_behind() -> None:
    plan = plan_of("cancel-frees", Tier.GATE)
    for start in plan.starts:
        before, leaving, behind = start.requests
        assert before.body == behind.body
        assert (leaving.max_tokens, leaving.leave_after_chunks) == (400, 3)
