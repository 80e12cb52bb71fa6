"""The seed plan: sixteen requests, of which fifteen must engage."""

from __future__ import annotations

from harness.plans.build import build_plan
from harness.plans.registry import SLICES
from harness.plans.seed import seed_plan, seed_requests
from harness.records.plan import Tier
from tests.harness.checks.ideal import fixture


def test_it_is_sixteen_requests_of_which_the_last_alone_is_sampled() -> None:
    requests = seed_requests(fixture())
    assert len({request.id for request in requests}) == len(requests) == 16
    assert [request.is_greedy for request in requests] == [True] * 15 + [False]
    assert {request.role for request in requests} == {"seed"}
    assert [request.checks for request in requests] == [("same-reply",)] * 15 + [("same-sampled-reply",)]


def test_it_asks_four_prompts_at_three_budgets_and_stops_three_of_them() -> None:
    greedy = [request for request in seed_requests(fixture()) if request.is_greedy]
    stopped = [request for request in greedy if "stop" in (request.body or {})]
    assert {(request.prompt_ids, request.max_tokens) for request in greedy if request not in stopped} == {
        (fixture().stream(name).prompt_ids, budget) for name in ("main-1", "main-2", "hit-1", "repeat-1") for budget in (1, 5, 24)
    }
    assert len({request.prompt_ids for request in stopped}) == 3


def test_its_stops_are_in_the_prescribed_replies() -> None:
    replies = {stream.prompt_ids: stream.reply for stream in fixture().streams}
    for request in seed_requests(fixture()):
        for stop in (request.body or {}).get("stop", ()):
            assert stop in replies[request.prompt_ids]


def test_the_sampled_request_is_seeded_and_warm() -> None:
    sampled = seed_requests(fixture())[-1].body or {}
    assert (sampled["temperature"], sampled["seed"]) == (0.8, 7)


def test_it_goes_to_the_three_main_arms() -> None:
    assert {asked.start.id for asked in seed_plan(fixture())} == {"plain", "lookup", "draft"}
    assert len(seed_plan(fixture())) == 48


def test_every_gate_plan_holds_it_first_on_each_main_arm() -> None:
    plan = build_plan(fixture(), Tier.GATE, SLICES, list(SLICES))
    want = [request.id for request in seed_requests(fixture())]
    for start_id in ("plain", "lookup", "draft"):
        requests = plan.start(start_id).requests
        assert [request.id for request in requests[:16]] == want
        assert [request.id for request in requests if "seed" in request.roles] == want
