"""What may not be speculated on, and what looks like it."""

from __future__ import annotations

from collections import defaultdict

import pytest

from harness.oracle.abstain import abstains
from harness.plans.abstain import NEUTRAL, neutral
from harness.plans.build import build_plan
from harness.plans.path import SLICES
from harness.plans.registry import SLICES as ALL
from harness.records.plan import Plan, Tier
from tests.harness.checks.ideal import DECLARED, fixture

REASONS = ["sampled", "grammar", "logprobs", "dump-logits", "penalties", "logit-bias"]


def plan_of(tier: Tier) -> Plan:
    return build_plan(fixture(), tier, SLICES, ["abstained"])


def reasons_by_start(plan: Plan) -> dict[str, set[str | None]]:
    found: dict[str, set[str | None]] = defaultdict(set)
    for start in plan.starts:
        for request in start.requests:
            found[start.id].add(abstains(request, dumps_logits=DECLARED.arms[start.arm].dumps_logits))
    return found


@pytest.mark.parametrize("tier", list(Tier))
def test_every_reason_is_given_on_a_lookup_arm_that_does_not_leave_logits_or_on_one_that_does(tier: Tier) -> None:
    reasons = reasons_by_start(plan_of(tier))
    assert reasons["lookup"] == set(REASONS) - {"dump-logits"}
    assert "dump-logits" in reasons["dump/lookup"]


def test_the_gate_gives_every_reason_on_the_draft_arms_too() -> None:
    reasons = reasons_by_start(plan_of(Tier.GATE))
    assert reasons["draft"] | reasons["dump/draft"] == set(REASONS)
    assert {"sampled", "logprobs", "dump-logits"} <= reasons["dump/draft"]


def test_the_gate_gives_several_reasons_at_once_with_each_but_the_last_as_the_first() -> None:
    firsts = set()
    for request in plan_of(Tier.GATE).start("lookup").requests:
        body = request.body or {}
        alone = {
            "grammar": "structured_outputs",
            "logprobs": "logprobs",
            "penalties": "presence_penalty",
            "logit-bias": "logit_bias",
        }
        given = [reason for reason, field in alone.items() if field in body]
        given += [] if request.is_greedy else ["sampled"]
        if len(given) > 1:
            firsts.add(abstains(request))
    assert firsts == {"sampled", "grammar", "logprobs", "penalties"}


def test_the_gate_samples_in_each_way_that_a_body_can_ask_for_it() -> None:
    bodies = [request.body or {} for request in plan_of(Tier.GATE).start("draft").requests]
    assert any("temperature" not in body for body in bodies)
    assert any(body.get("top_k") == 1 for body in bodies)
    assert any(body.get("stream") for body in bodies)


def test_neutral_fields_give_no_reason_alone_or_together() -> None:
    requests = list(neutral(fixture().stream("hit-1"), "x"))
    assert len(requests) == len(NEUTRAL) + 1
    assert [abstains(request) for request in requests] == [None] * len(requests)
    assert set(requests[-1].body or {}) >= {field for fields in NEUTRAL.values() for field in fields}


def test_neutral_requests_are_asked_of_every_main_arm_and_read_by_two_laws() -> None:
    plan = build_plan(fixture(), Tier.GATE, ALL, ["same-reply", "engaged-exactly"])
    for name in ("plain", "lookup", "draft"):
        (together,) = [request for request in plan.start(name).requests if request.id.endswith("all-neutral")]
        assert set(together.checks) == {"same-reply", "engaged-exactly"}
