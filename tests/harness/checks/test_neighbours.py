"""The law on requests that are sent at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.records.finding import Verdict
from harness.records.plan import Request, Start, Tier
from harness.records.recording import Answer
from tests.harness.checks.ideal import altered
from tests.harness.checks.replying import blind, changed, findings, places, result, run_of, without

CHECK = "concurrent-neighbours"
HIT = "hit-1/24/together-1"
STOPPED = "main-1/24/stop=C</together-1"
MARKED = "main-4/9/logit_bias=90/together-1"
REFUSED = "main-1/0/together-1"
SCORED = "main-1/6/logprobs=5/together-1"
LEAVING = "main-2/400/stream=True/stream_options=include_usage/leave=3/together-1"


@pytest.mark.parametrize("tier", Tier)
def test_a_right_engine_has_no_finding_on_any_tier(tier: Tier) -> None:
    got = result(CHECK, run_of(CHECK, tier))
    assert got.findings == ()
    assert {start.id for start in run_of(CHECK, tier).plan.starts} == set(got.examined)


@pytest.mark.parametrize(
    ("request_id", "changes", "message"),
    [
        (HIT, {"reply": {"ids": (1, 2)}}, "ids of hit-1/24 differs"),
        (STOPPED, {"reply": {"text": "G"}}, "text of main-1/24/stop=C< differs"),
        (HIT, {"counts": {"drafted": 99}}, "drafted of the path of hit-1/24 differs"),
        (SCORED, {"reply": {"logprobs": {}}}, "logprobs of main-1/6/logprobs=5 differs"),
        (REFUSED, {"status": 200}, "status of main-1/0 differs"),
        (REFUSED, {"body": {"error": {}}}, "body of main-1/0 differs"),
    ],
)
def test_an_answer_that_is_another_among_neighbours_is_found(request_id: str, changes: dict[str, Any], message: str) -> None:
    (one,) = findings(CHECK, altered(run_of(CHECK), "lookup", request_id, **changes))
    assert (one.start, one.request, one.message, one.verdict) == ("lookup", request_id, message, Verdict.MISMATCH)


def test_a_neighbour_that_is_never_answered_is_found() -> None:
    found = findings(CHECK, altered(run_of(CHECK), "plain", HIT, status=None, failure="deadline", reply=None))
    assert places(found) == [("plain", HIT)]


def test_the_marker_of_one_in_the_reply_of_another_is_found_by_its_name() -> None:
    run = altered(run_of(CHECK), "lookup", HIT, reply={"text": "YX{{{{]:"})
    found = findings(CHECK, run)
    assert ("lookup", HIT, f"the marker of {MARKED} is in its reply") in [(one.start, one.request, one.message) for one in found]


def test_a_marker_in_the_chunks_of_a_stream_that_broke_off_is_found() -> None:
    def marked(_start: Start, request: Request, one: Answer) -> Answer:
        if request.id != LEAVING:
            return one
        return msgspec.structs.replace(one, chunks=(msgspec.structs.replace(one.chunks[0], text="{"), *one.chunks[1:]))

    found = findings(CHECK, changed(run_of(CHECK, Tier.GATE), marked))
    assert {one.message for one in found} == {f"the marker of {MARKED} is in its reply"}
    assert {one.request for one in found} == {LEAVING}


def test_a_marked_reply_without_its_own_marker_is_found() -> None:
    found = findings(CHECK, altered(run_of(CHECK), "plain", MARKED, reply={"text": "abc"}))
    assert "its own marker is not in its reply" in [one.message for one in found]


def test_two_answers_of_one_id_are_found() -> None:
    def same_id(_start: Start, request: Request, one: Answer) -> Answer:
        is_one = request.id in {HIT, MARKED}
        return (
            msgspec.structs.replace(one, reply=msgspec.structs.replace(one.reply, response_id="x"))
            if is_one and one.reply
            else one
        )

    found = findings(CHECK, changed(run_of(CHECK), same_id))
    assert [(one.start, one.message, one.got) for one in found] == [
        ("plain", "two answers have one id", ["x"]),
        ("lookup", "two answers have one id", ["x"]),
    ]


def test_a_client_that_did_not_leave_its_neighbours_proves_nothing_of_leaving() -> None:
    found = findings(CHECK, altered(run_of(CHECK, Tier.GATE), "draft", LEAVING, status=200, failure=""))
    assert [(one.start, one.verdict) for one in found] == [("draft", Verdict.BLIND)]


def test_neighbours_that_were_not_asked_alone_prove_nothing() -> None:
    found = findings(CHECK, without(run_of(CHECK), lambda request: request.id == "hit-1/24"))
    assert blind(found) == [f"{HIT}: the same was not asked undisturbed, so nothing is compared"] * 2


def test_requests_that_were_sent_one_by_one_prove_nothing() -> None:
    found = findings(CHECK, without(run_of(CHECK), lambda request: bool(request.group)))
    assert blind(found) == ["no two requests were sent at once and served"] * 2


def test_neighbours_without_two_markers_prove_nothing() -> None:
    found = findings(CHECK, without(run_of(CHECK), lambda request: request.id == MARKED))
    assert blind(found) == ["no two neighbours are marked"] * 2


def test_a_surface_that_cannot_mark_its_replies_owes_no_marker() -> None:
    run = without(run_of(CHECK), lambda request: "logit_bias" in request.id)
    assert {one.message for one in findings(CHECK, run)} == {"no two neighbours are marked"}
    none = {name: {"logit_bias": "unsupported"} for name in ("none", "lookup", "dflash")}
    unmarked = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, capabilities=none))
    assert findings(CHECK, unmarked) == ()
