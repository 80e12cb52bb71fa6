"""The ledger: what counts as equal, and when a check has looked at nothing."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checks.check import Check, Ledger, first_difference
from harness.checks.evidence import Case
from harness.records.finding import Verdict
from harness.records.plan import Request, Start
from harness.records.recording import Answer, ArmFacts

CHECK = Check("some-law", Verdict.MISMATCH, "A law.", lambda _evidence, _ledger: None)
START = Start(id="lookup", arm="lookup", model="tiny", requests=())
CASE = Case(START, Request(id="r", checks=("some-law",)), Answer(request_id="r", status=200), ArmFacts())


@pytest.mark.parametrize(
    ("want", "got", "index"),
    [
        ((1, 2, 3), (1, 3, 2), 1),
        ((1, 2, 2), (1, 2, 2, 2), 3),
        ((1, 2), (1,), 1),
        ("ab", "ba", 0),
        (1, 2, None),
        (1, True, None),
        ((), None, None),
    ],
    ids=["order", "one repeat more", "a prefix", "text", "numbers", "a number and a truth value", "nothing and None"],
)
def test_values_that_differ_in_any_way_are_a_fault_with_the_first_differing_index(want: Any, got: Any, index: int | None) -> None:
    ledger = Ledger(CHECK)
    assert not ledger.compare(CASE, "ids", want, got)
    (finding,) = ledger.result({}).findings
    assert (finding.message, finding.want, finding.got, finding.first_difference) == ("ids differs", want, got, index)


def test_equal_values_are_no_fault() -> None:
    ledger = Ledger(CHECK)
    ledger.examine("lookup")
    assert ledger.compare(CASE, "ids", (1, 2), (1, 2))
    assert ledger.result({"lookup": 1}).findings == ()


def test_a_start_whose_answers_were_not_looked_at_is_blind_though_another_s_were() -> None:
    ledger = Ledger(CHECK)
    ledger.examine("plain")
    result = ledger.result({"plain": 1, "lookup": 2})
    assert [(finding.start, finding.verdict, finding.message) for finding in result.findings] == [
        ("lookup", Verdict.BLIND, "examined nothing")
    ]


def test_a_start_with_a_fault_of_its_own_is_not_blind_as_well() -> None:
    ledger = Ledger(CHECK)
    ledger.fault(CASE, "not served")
    assert [finding.message for finding in ledger.result({"lookup": 2}).findings] == ["not served"]


def test_a_check_that_looked_at_nothing_and_found_nothing_is_blind() -> None:
    (finding,) = Ledger(CHECK).result({}).findings
    assert (finding.start, finding.verdict) == ("", Verdict.BLIND)


def test_a_sequence_and_something_else_have_no_first_difference() -> None:
    assert first_difference((1, 2), None) is None
    assert first_difference((1, 2), (1, 2)) is None
