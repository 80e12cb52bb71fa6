from __future__ import annotations

import pytest

from harness.plans.build import build_plan
from harness.plans.controls import ABSTAINS, ENGAGES, SILENT, SLICES
from harness.plans.seed import seed_requests
from harness.records.plan import Tier
from tests.harness.checks.ideal import fixture


@pytest.mark.parametrize("tier", list(Tier))
def test_the_repeat_control_asks_a_second_plain_process_the_same_in_the_same_order(tier: Tier) -> None:
    plan = build_plan(fixture(), tier, SLICES, ["control-repeat"])
    plain, repeat = plan.starts
    assert (plain.arm, repeat.arm, repeat.reference) == ("plain", "plain", "plain")
    assert (plain.id, repeat.id) == ("plain", "repeat/plain")
    assert plain.requests == repeat.requests


def test_the_repeat_control_asks_a_greedy_a_sampled_and_a_streamed_request_with_a_stop() -> None:
    requests = build_plan(fixture(), Tier.GATE, SLICES, ["control-repeat"]).start("repeat/plain").requests
    assert {(request.is_greedy, request.streams, "stop" in (request.body or {})) for request in requests} == {
        (True, False, False),
        (False, False, False),
        (True, True, True),
    }


def test_each_arm_is_asked_all_canaries() -> None:
    plan = build_plan(fixture(), Tier.GATE, SLICES, ["control-canary"])
    for start in plan.starts:
        roles = [(request.role, request.is_greedy, request.max_tokens) for request in start.requests]
        assert roles == [(ENGAGES, True, 5), (ENGAGES, True, 24), (ABSTAINS, False, 24), (SILENT, True, 1)]
    others = ["npu", "npu-lookup", "npu-draft", "draft-2", "draft-sliding"]
    assert [start.arm for start in plan.starts] == ["plain", "lookup", "draft", *others]
    small = build_plan(fixture(), Tier.MUTATION, SLICES, ["control-canary"])
    assert [start.arm for start in small.starts] == ["plain", "lookup", "draft"]


@pytest.mark.parametrize("check_id", ["control-counts", "control-canary", "control-tracer"])
def test_a_control_beside_the_seed_plan_costs_no_request(check_id: str) -> None:
    plan = build_plan(fixture(), Tier.GATE, SLICES, [check_id])
    seeds = {request.id for request in seed_requests(fixture())}
    assert {request.id for start in plan.starts for request in start.requests} <= seeds
