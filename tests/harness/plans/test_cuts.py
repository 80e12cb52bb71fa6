"""What the laws on the end of a reply are asked: stops, end tokens, the end of the context, streams."""

from __future__ import annotations

from harness.oracle.spelling import byte_of
from harness.plans.cuts import NEVER
from harness.plans.streams import end_place, lookup_trace
from harness.records.plan import Tier
from tests.harness.checks.ideal import fixture
from tests.harness.plans.planning import asked, plan_of


def test_every_stop_of_the_deep_tier_that_is_cut_out_is_in_the_reply() -> None:
    plan = plan_of("stop-cut", Tier.DEEP)
    cut = {stop for request in plan.start("lookup").requests for stop in (request.body or {}).get("stop", ())}
    assert {len(stop) for stop in cut if NEVER not in stop} >= {1, 2, 3, 4}


def test_stops_meet_the_budget_and_come_two_at_once_in_the_gate() -> None:
    requests = asked(plan_of("stop-cut", Tier.GATE), "lookup", "stop-cut")
    stops = [(request.max_tokens, request.body["stop"]) for request in requests if request.body and "stop" in request.body]
    assert any(len(each) == 2 for _, each in stops)
    assert any(len(each) == 8 for _, each in stops)
    reply = fixture().stream("hit-1").reply
    assert any(budget < 24 and reply[:budget].endswith(each[0]) for budget, each in stops)


def test_the_twin_of_the_end_token_holds_a_list_whose_first_id_never_comes() -> None:
    model = plan_of("end-token", Tier.GATE).start("end/lookup").model
    first, second = map(int, model.removeprefix("tiny+eos=").split("."))
    said = {token for stream in fixture().streams for token in stream.reply_ids}
    assert first not in said
    assert second in said


def test_the_end_token_falls_on_each_place_already_in_the_smallest_plan() -> None:
    plan = plan_of("end-token", Tier.MUTATION)
    token = int(plan.start("end/lookup").model.rpartition(".")[2])
    paths = {stream.prompt_ids: stream for stream in fixture().streams}
    places = set()
    for request in plan.start("end/lookup").requests:
        stream = paths[request.prompt_ids[:16]]
        gone = len(request.prompt_ids) - 16
        assert (stream.prompt_ids + stream.reply_ids)[: len(request.prompt_ids)] == request.prompt_ids
        source = type(stream)("x", "", request.prompt_ids, stream.reply_ids[gone:])
        places.add(end_place(source, token, 4))
    assert places == {0, 1, 2, 3, 4}


def test_rounds_end_inside_characters_of_several_bytes_where_the_text_is_streamed() -> None:
    requests = asked(plan_of("stream-join", Tier.GATE), "text/lookup", "stream-join")
    budgets = {(request.prompt_ids, request.max_tokens) for request in requests}
    for stream in fixture().companion("text").of_role("utf8"):
        said = bytes(byte_of(token) for token in stream.reply_ids)
        is_inside = [byte & 0xC0 == 0x80 for byte in said]  # a byte that continues a character
        rounds = lookup_trace(stream, 4).rounds
        assert any(step.accepted and is_inside[step.index + step.accepted + 1] for step in rounds[:-1]), stream.name
        assert any(is_inside[budget] for prompt, budget in budgets if prompt == stream.prompt_ids and budget < len(said))


def test_the_context_is_swept_over_its_end_and_left_no_room() -> None:
    plan = plan_of("context-end", Tier.GATE)
    start = plan.start("context-36/lookup")
    assert start.model == "tiny+context=36"
    budgets = {request.max_tokens for request in start.requests if len(request.prompt_ids) == 16}
    assert budgets >= {18, 19, 20, 21, 24, 40}
    refused = [request for request in start.requests if request.expect == 400]
    assert [len(request.prompt_ids) for request in refused] == [36, 37]
    assert any(len(request.prompt_ids) == 35 and request.expect == 200 for request in start.requests)


def test_each_streamed_request_has_its_unstreamed_twin_on_the_same_start() -> None:
    for tier in Tier:
        plan = plan_of("stream-join", tier)
        for start in plan.starts:
            bodies = [request.body or {} for request in start.requests if "stream-join" in request.checks]
            plain = [body for body in bodies if "stream" not in body]
            for body in bodies:
                assert {name: value for name, value in body.items() if not name.startswith("stream")} in plain
