"""What the laws on whole replies are asked."""

from __future__ import annotations

import pytest

from harness.plans.streams import lookup_trace
from harness.records.plan import Tier
from tests.harness.checks.ideal import fixture
from tests.harness.plans.planning import asked, plan_of


def test_same_reply_sweeps_budgets_about_both_drafters_k() -> None:
    plan = plan_of("same-reply", Tier.GATE)
    budgets = {request.max_tokens for request in asked(plan, "lookup", "same-reply") if request.id.startswith("hit-1/")}
    assert budgets == {1, 2, 3, 4, 5, 6, 7, 8, 9, 24}


def test_a_seed_is_asked_again_only_after_other_traffic() -> None:
    for tier in Tier:
        plan = plan_of("same-sampled-reply", tier)
        ids = [request.id for request in plan.start("lookup").requests]
        first, again = "main-1/24/seed=7/temperature=0.8", "main-1/24/seed=7/temperature=0.8/again"
        assert ids.index(again) > ids.index(first) + 1


def test_drafter_independence_starts_each_k_of_the_law_and_the_fallback_starts() -> None:
    plan = plan_of("drafter-independence", Tier.GATE)
    ks = {start.parameters["k"] for start in plan.starts if start.arm == "lookup" and "fallback_below" not in start.parameters}
    assert ks == {1, 2, 4, 7, 15}
    assert {start.parameters["fallback_below"] for start in plan.starts if "fallback_below" in start.parameters} == {
        1.5,
        2.0,
        2.5,
        4.5,
    }
    for arm, packs in (("draft", {"mixed"}), ("draft-2", {"mixed2", "flip2", "twin2"}), ("draft-sliding", {"window1"})):
        assert {start.pack for start in plan.starts if start.arm == arm} == packs
    for pack in ("mixed", "mixed2"):  # a sweep of K and of the fallback bar for both generations
        starts = [start for start in plan.starts if start.pack == pack]
        assert {start.parameters.get("draft_k") for start in starts} == {None, 3}
        assert {start.parameters.get("fallback_below") for start in starts} == {None, 4.5}


def test_companions_are_compared_whole_with_plain_starts_of_their_own() -> None:
    plan = plan_of("same-reply", Tier.GATE)
    for name, drafter in (("five", "draft"), ("text", "lookup"), ("tie", "lookup")):
        start = plan.start(f"{name}/{drafter}")
        assert (start.model, start.reference, plan.start(f"{name}/plain").model) == (name, f"{name}/plain", name)
        assert [request.prompt_ids for request in start.requests] == [one.prompt_ids for one in fixture().companion(name).streams]


def test_the_widest_start_is_in_the_smallest_plan() -> None:
    plan = plan_of("drafter-independence", Tier.MUTATION)
    assert [start.id for start in plan.starts] == ["tie/plain", "tie/lookup", "plain", "k-15/lookup"]


@pytest.mark.parametrize("tier", Tier)
def test_drafts_hold_the_higher_id_of_a_tie_whose_lower_id_plain_says(tier: Tier) -> None:
    asked_for = {request.prompt_ids for request in plan_of("drafter-independence", tier).start("tie/lookup").requests}
    higher = {26: 90, 28: 92}
    places = [
        (step.drafts[step.accepted], stream.reply_ids[step.index + 1 + step.accepted])
        for stream in fixture().companion("tie").streams
        if stream.prompt_ids in asked_for
        for step in lookup_trace(stream, 4).rounds
        if step.accepted < len(step.drafts)
    ]
    assert any(higher.get(said) == drafted for drafted, said in places)


def test_budget_prefix_crosses_the_natural_end_inside_a_block() -> None:
    plan = plan_of("budget-prefix", Tier.GATE)
    requests = plan.start("end/lookup").requests
    budgets = [request.max_tokens for request in requests]
    assert budgets == list(range(1, 8))
    token = int(plan.start("end/lookup").model.rpartition(".")[2])
    (stream,) = (one for one in fixture().streams if one.prompt_ids == requests[0].prompt_ids[:16])
    reply = (stream.prompt_ids + stream.reply_ids)[len(requests[0].prompt_ids) :]
    assert 1 < reply.index(token) < 6
