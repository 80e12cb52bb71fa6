"""The law on constrained replies: whole or cut, each in its grammar, and as plain's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.records.finding import Verdict
from harness.records.plan import Start, Tier
from tests.harness.checks.ideal import altered
from tests.harness.checks.replying import blind, findings, places, replanned, result, run_of, without

CHECK = "grammar-valid"
FREE = "hit-1/40"
FIXED = "hit-1/40/structured_outputs=regex/fixed"
ALTERNATING = "hit-1/40/structured_outputs=regex/alternating"
LONG = "hit-1/40/structured_outputs=regex/long"
SCHEMA = "hit-1/40/response_format=type+json_schema/response-schema"
BREAKS = "the reply does not satisfy its grammar"
BEGINS_NOTHING = "the reply, cut short, begins no text that satisfies its grammar"


@pytest.mark.parametrize("tier", Tier)
def test_a_right_engine_has_no_finding_on_any_tier(tier: Tier) -> None:
    got = result(CHECK, run_of(CHECK, tier))
    assert got.findings == ()
    assert {start.id for start in run_of(CHECK, tier).plan.starts} == set(got.examined)


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "ids": tuple(ord(character) - 33 for character in text), "completion_tokens": len(text), **more}


@pytest.mark.parametrize("text", ["ABC", "ABCDEFG", "abcdef", ""])
def test_a_reply_that_ends_outside_of_its_grammar_is_found_on_the_plain_arm_too(text: str) -> None:
    found = findings(CHECK, altered(run_of(CHECK), "plain", FIXED, reply=said(text)))
    of_plain = [one for one in found if one.start == "plain"]
    assert [(one.request, one.message, one.got, one.verdict) for one in of_plain] == [(FIXED, BREAKS, text, Verdict.MISMATCH)]


def test_an_alternation_whose_state_was_advanced_twice_is_found() -> None:
    found = findings(CHECK, altered(run_of(CHECK), "lookup", ALTERNATING, reply=said("aabbccdd")))
    assert found[0].message == BREAKS


@pytest.mark.parametrize(("text", "first"), [("12-3x", 4), ("1-", 1), ("x", 0), ("12--", 3)])
def test_a_cut_reply_that_begins_nothing_is_found_at_its_first_wrong_character(text: str, first: int) -> None:
    found = findings(CHECK, altered(run_of(CHECK), "lookup", LONG, reply=said(text, finish_reason="length", stop_reason=None)))
    assert (found[0].request, found[0].message, found[0].first_difference) == (LONG, BEGINS_NOTHING, first)


@pytest.mark.parametrize(
    "text", ['{"ok":true}', '{"ok":true,"tags":["a"],"x":1}', '{"ok":1,"tags":["a"]}', '{"ok":true,"tags":[]}']
)
def test_json_that_is_none_of_its_schema_is_found(text: str) -> None:
    (one,) = [
        one for one in findings(CHECK, altered(run_of(CHECK), "plain", SCHEMA, reply={"text": text})) if one.start == "plain"
    ]
    assert (one.request, one.message) == (SCHEMA, BREAKS)


def test_a_valid_reply_that_is_not_plains_is_found() -> None:
    (one,) = findings(CHECK, altered(run_of(CHECK), "lookup", FIXED, reply=said("ABCDEF")))
    assert (one.start, one.request, one.message) == ("lookup", FIXED, "ids differs")


def test_a_reply_that_goes_on_to_its_budget_where_its_grammar_ends_is_found() -> None:
    text = "ABCDEF" * 6 + "ABCD"
    found = findings(CHECK, altered(run_of(CHECK), "plain", FIXED, reply=said(text, finish_reason="length", stop_reason=None)))
    assert (found[0].message, found[0].first_difference) == (BEGINS_NOTHING, 6)


def test_a_reply_that_its_own_stop_cuts_need_only_begin_a_text() -> None:
    run = run_of(CHECK)
    for start in ("plain", "lookup"):
        run = altered(run, start, LONG, reply=said("1", finish_reason="stop", stop_reason="-"))
    assert findings(CHECK, run) == ()


@pytest.mark.parametrize("start_id", ["plain", "lookup"])
def test_a_constrained_request_that_is_not_served_is_found(start_id: str) -> None:
    found = findings(CHECK, altered(run_of(CHECK), start_id, LONG, status=500, reply=None))
    assert (start_id, LONG) in places(found)
    assert blind(found) == []


def test_a_grammar_that_every_reply_satisfies_anyway_proves_nothing() -> None:
    run = altered(run_of(CHECK), "lookup", FREE, reply=said("ABCDEF"))
    assert "no reply to a request without its grammar breaks the grammar 'fixed'" in blind(findings(CHECK, run))


def test_without_the_free_request_no_grammar_is_known_to_bite() -> None:
    found = findings(CHECK, without(run_of(CHECK), lambda request: request.id == FREE))
    assert {one.start for one in found if one.verdict is Verdict.BLIND} == {"plain", "lookup"}


def test_replies_that_all_end_by_themselves_never_show_a_cut_one() -> None:
    found = findings(CHECK, without(run_of(CHECK), lambda request: request.id == LONG))
    assert blind(found) == ["a reply cut by its budget was not seen"] * 2


def test_a_grammar_that_nobody_knows_is_blind() -> None:
    def other(start: Start) -> Start:
        fields = {"structured_outputs": {"regex": "x*"}}
        requests = [
            msgspec.structs.replace(one, body={**(one.body or {}), **fields}) if one.id == LONG else one for one in start.requests
        ]
        return msgspec.structs.replace(start, requests=tuple(requests))

    assert f"{LONG}: nobody knows its grammar" in blind(findings(CHECK, replanned(run_of(CHECK), other)))
