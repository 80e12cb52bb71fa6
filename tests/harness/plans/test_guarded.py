"""What the laws on grammars, logprobs and neighbours are asked."""

from __future__ import annotations

import pytest

from harness.oracle.constraints import CONSTRAINTS, constraint_of
from harness.plans.bad_bodies import MORE, ROWS, TYPES, of_wrong_type
from harness.records.plan import Tier
from tests.harness.checks.ideal import fixture
from tests.harness.plans.planning import plan_of


def test_the_gate_asks_every_grammar_and_each_prompt_without_one() -> None:
    requests = plan_of("grammar-valid", Tier.GATE).start("lookup").requests
    asked = {constraint.name for request in requests if (constraint := constraint_of(request.body or {})) is not None}
    assert asked == {constraint.name for constraint in CONSTRAINTS}
    assert any(constraint_of(request.body or {}) is None for request in requests)


def test_the_gate_cuts_grammars_short_streams_samples_stops_and_chats() -> None:
    requests = plan_of("grammar-valid", Tier.GATE).start("lookup").requests
    constrained = [request for request in requests if constraint_of(request.body or {}) is not None]
    assert {request.max_tokens for request in constrained} == {3, 5, 40}
    assert any(request.streams for request in constrained)
    assert any(not request.is_greedy for request in constrained)
    assert any("stop" in (request.body or {}) for request in constrained)
    assert any("/chat/" in request.path for request in constrained)


@pytest.mark.parametrize("tier", list(Tier))
def test_each_position_of_a_reply_with_logprobs_is_asked_for_alone(tier: Tier) -> None:
    plan = plan_of("logprobs-target", tier)
    source = fixture().stream("main-1")
    prompts = {request.prompt_ids for request in plan.start("plain").requests if "rescores" in request.roles}
    (whole,) = [
        request
        for request in plan.start("lookup").requests
        if request.prompt_ids == source.prompt_ids
        and not request.streams
        and (request.body or {}).get("logprobs") == 5
        and "stop" not in (request.body or {})
    ]
    wanted = {source.prompt_ids + source.reply_ids[:count] for count in range(whole.max_tokens)}
    assert wanted <= prompts


@pytest.mark.parametrize("tier", list(Tier))
def test_neighbours_are_asked_alone_and_then_all_together_in_one_row(tier: Tier) -> None:
    for start in plan_of("concurrent-neighbours", tier).starts:
        together = [request for request in start.requests if request.group]
        alone = [request for request in start.requests if not request.group]
        places = [start.requests.index(request) for request in together]
        assert places == list(range(places[0], places[0] + len(together)))
        bodies = [request.body for request in alone]
        assert all(request.body in bodies for request in together if request.leave_after_chunks is None)


def test_the_markers_are_in_no_prescribed_reply() -> None:
    said = {token for stream in fixture().streams for token in stream.reply_ids}
    requests = plan_of("concurrent-neighbours", Tier.GATE).start("plain").requests
    markers = {int(token) for request in requests for token in (request.body or {}).get("logit_bias", {})}
    assert len(markers) == 2
    assert markers.isdisjoint(said)


def test_bad_values_are_told_apart_and_every_field_is_wrong_in_every_type_that_it_has_not() -> None:
    rows = [(field, repr(value)) for field, value in (*ROWS, *MORE)]
    assert len(set(rows)) == len(rows)
    swept = list(of_wrong_type())
    assert {field for field, _ in swept} == set(TYPES)
    assert len(swept) == sum(6 - len(types) for types in TYPES.values())
