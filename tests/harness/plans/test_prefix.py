"""What the law on the prefix cache is asked."""

from __future__ import annotations

import pytest

from harness.plans.prefix import spliced, turned
from harness.records.plan import Tier
from tests.harness.checks.ideal import fixture
from tests.harness.plans.planning import plan_of

CACHED = ("cached/plain", "cached/lookup", "cached/draft")


def test_a_next_turn_holds_prompt_and_reply_and_goes_on() -> None:
    first, second = fixture().stream("main-1"), fixture().stream("main-2")
    source = turned(first, second)
    assert source.prompt_ids == first.prompt_ids + first.reply_ids + second.prompt_ids[:8]


def test_a_spliced_prompt_leaves_the_first_after_so_many_tokens() -> None:
    first, second = fixture().stream("main-1"), fixture().stream("main-2")
    assert spliced(first, 10, second).prompt_ids == first.prompt_ids[:10] + second.prompt_ids[10:]


@pytest.mark.parametrize("tier", list(Tier))
def test_all_arms_with_a_cache_are_asked_the_same_after_a_probe_and_a_failure(tier: Tier) -> None:
    plan = plan_of("prefix-cache", tier)
    asked = [[request.id for request in plan.start(name).requests] for name in CACHED]
    assert asked[0] == asked[1] == asked[2]
    assert asked[0][:2] == ["hit-1/24/alone", "main-1/400/failed"]


@pytest.mark.parametrize("tier", list(Tier))
def test_a_pack_of_generation_2_is_asked_the_least_that_shows_what_resumes_from_nothing_from_all_and_from_a_part(
    tier: Tier,
) -> None:
    start = plan_of("prefix-cache", tier).start("cached/draft-2")
    assert (start.pack, start.reference) == ("mixed2", "plain")
    wanted = ["main-1>main-2/4", "hit-1/24", "hit-1/24/once-more", "hit-1>main-1/6", "hit-1:10:main-2/6"]
    assert [request.id for request in start.requests] == wanted


@pytest.mark.parametrize("tier", list(Tier))
def test_what_is_served_is_asked_of_the_plain_arm_once_and_what_breaks_off_is_not(tier: Tier) -> None:
    plan = plan_of("prefix-cache", tier)
    plain = [request.body for request in plan.start("plain").requests]
    for start in plan.starts:
        for request in start.requests:
            breaks = request.expect != 200 or request.leave_after_chunks is not None
            assert breaks or request.body in plain
    assert all(request.expect == 200 and request.leave_after_chunks is None for request in plan.start("plain").requests)


def test_replies_that_break_off_are_known_beyond_what_the_next_prompt_holds_of_them() -> None:
    plan = plan_of("prefix-cache", Tier.GATE)
    plain = plan.start("plain").requests
    for request in plan.start("cached/plain").requests:
        if {"failed", "cancelled"} & set(request.roles):
            known = max(one.max_tokens for one in plain if one.prompt_ids == request.prompt_ids)
            assert known == 32


def test_at_leisure_a_first_request_fails_inside_its_prefill() -> None:
    plan = plan_of("prefix-cache", Tier.DEEP)
    for name in ("cached-prefill/plain", "cached-prefill/lookup", "cached-prefill/draft"):
        start = plan.start(name)
        assert (start.parameters["fail_pass"], start.requests[0].role) == (2, "failed")
        assert len(start.requests[0].prompt_ids) > 16
