"""What the law on accept lengths is asked: few lookup prompts that show everything, and every stream for the packs."""

from __future__ import annotations

import pytest

from harness.oracle.lookup import trace
from harness.oracle.loop import Rules, Said
from harness.plans.build import build_plan
from harness.plans.lengths import CHECK, SLICES
from harness.records.plan import Plan, Tier
from tests.harness.checks.ideal import fixture


def plan_of(tier: Tier) -> Plan:
    return build_plan(fixture(), tier, SLICES, [CHECK])


@pytest.mark.parametrize("k", [4, 7])
def test_few_lookup_prompts_realise_every_length(k: int) -> None:
    start = plan_of(Tier.GATE).start("lookup" if k == 4 else "k-7/lookup")
    known = {tuple(stream.prompt_ids + stream.reply_ids) for stream in fixture().streams}
    lengths: set[int] = set()
    for request in start.requests:
        whole = next(ids for ids in known if ids[: len(request.prompt_ids)] == request.prompt_ids)
        reply = whole[len(request.prompt_ids) :][: request.max_tokens]
        walk = trace(request.prompt_ids, Said(reply, len(reply)), Rules(k=k))
        lengths |= {step.accepted for step in walk.rounds if len(step.drafts) == k}
    assert lengths == set(range(k + 1))
    assert len(start.requests) <= 12


def test_packs_are_asked_every_stream_and_replies_cut_by_budget_and_stop() -> None:
    requests = plan_of(Tier.GATE).start("k-4/draft").requests
    assert {f"{stream.name}/24" for stream in fixture().streams} <= {request.id for request in requests}
    assert {request.max_tokens for request in requests} == {3, 5, 8, 24}
    assert any("stop" in (request.body or {}) for request in requests)


def test_a_mutant_is_asked_of_the_two_main_arms_alone() -> None:
    assert [start.id for start in plan_of(Tier.MUTATION).starts] == ["plain", "lookup", "draft"]
