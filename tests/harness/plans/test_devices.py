from __future__ import annotations

import pytest

from harness.plans.build import build_plan
from harness.plans.devices import SLICES, WHOLE_REPLY
from harness.plans.registry import SLICES as ALL_SLICES
from harness.plans.seed import seed_requests
from harness.plans.starts import DEVICE, NPU_DRAFT_2
from harness.records.plan import Plan, Tier
from tests.harness.checks.ideal import DEVICE_WIDTH, fixture

HOST = ["plain", "lookup", "draft"]


def plan_of(check_id: str, tier: Tier) -> Plan:
    return build_plan(fixture(), tier, SLICES, [check_id])


@pytest.mark.parametrize(
    ("tier", "devices"),
    [(Tier.MUTATION, ["npu/plain"]), (Tier.GATE, ["npu/plain", "npu/lookup", "npu/draft"])],
)
def test_each_main_arm_and_those_of_a_device_are_asked_one_request_under_the_tracer(tier: Tier, devices: list[str]) -> None:
    plan = plan_of("device-opens", tier)
    assert [(start.id, len(start.requests)) for start in plan.starts] == [(name, 1) for name in (*HOST, *devices)]


def test_the_smallest_plan_of_passes_starts_a_device_plain_by_lookup_and_with_a_pack_of_generation_2() -> None:
    plan = plan_of("device-passes", Tier.MUTATION)
    assert [(start.id, len(start.requests)) for start in plan.starts] == [("npu/plain", 2), ("npu/lookup", 2), ("npu/draft-2", 2)]


@pytest.mark.parametrize("tier", [Tier.GATE, Tier.DEEP])
def test_a_pack_of_generation_2_is_asked_few_replies_on_a_device_each_of_them_prescribed_and_asked_of_its_plain_arm(
    tier: Tier,
) -> None:
    plan = build_plan(fixture(), tier, ALL_SLICES, tuple(ALL_SLICES))
    start, on_device = plan.start(NPU_DRAFT_2.id), {request.id for request in plan.start("npu/plain").requests}
    assert (start.pack, start.reference, start.host) == ("mixed2", "npu/plain", "plain")
    assert {"main-1/24", "main-1/5", "main-1/1"} <= {request.id for request in start.requests} <= on_device
    assert len(start.requests) == 5
    assert max(request.max_tokens for request in start.requests) == WHOLE_REPLY
    laws = {"same-reply", "drafts-made", "exact-counts", "exact-drafts", "device-passes"}
    assert all(laws <= set(request.checks) for request in start.requests)


def test_a_device_lookup_arm_wants_more_drafts_than_a_pass_has_room_for() -> None:
    k = plan_of("device-passes", Tier.GATE).start("npu/lookup").parameters["k"]
    assert int(k) > DEVICE_WIDTH - 1


@pytest.mark.parametrize("tier", [Tier.GATE, Tier.DEEP])
def test_a_device_is_never_asked_beyond_a_prescribed_reply(tier: Tier) -> None:
    plan = build_plan(fixture(), tier, ALL_SLICES, tuple(ALL_SLICES))
    for device in DEVICE:
        assert all(request.max_tokens <= WHOLE_REPLY for request in plan.start(device.id).requests)


def test_the_gate_asks_a_device_the_seed_plan_and_little_more() -> None:
    plan = build_plan(fixture(), Tier.GATE, ALL_SLICES, tuple(ALL_SLICES))
    for device in DEVICE:
        start = plan.start(device.id)
        assert {request.id for request in seed_requests(fixture())} <= {request.id for request in start.requests}
        assert len(start.requests) <= 20
        assert {request.id for request in start.requests if not request.is_greedy} == {
            "main-1/24/seed=7/temperature=0.8",
            "main-1/24/seed=8/temperature=0.8",
            "main-1/24/seed=7/temperature=0.8/again",
        }


@pytest.mark.parametrize("tier", [Tier.GATE, Tier.DEEP])
def test_what_a_device_is_compared_with_is_asked_on_the_host_and_on_its_plain_arm(tier: Tier) -> None:
    plan = build_plan(fixture(), tier, ALL_SLICES, tuple(ALL_SLICES))
    on_host = {request.id for request in plan.start("plain").requests}
    on_device = {request.id for request in plan.start("npu/plain").requests}
    for device in DEVICE:
        requests = plan.start(device.id).requests
        compared = {request.id for request in requests if "same-reply" in request.checks and request.is_greedy}
        assert len(compared) >= 17
        assert compared <= on_host
        assert {request.id for request in requests} <= on_device
