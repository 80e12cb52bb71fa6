"""What a ledger writes down of a request that was not served, and with which verdict."""

from __future__ import annotations

import dataclasses

import pytest

from harness.checks.check import Ledger
from harness.records.finding import Verdict
from harness.records.recording import Answer
from tests.harness.checks.comparing import CHECK, REPLY, a_case, found


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (Answer("x", 200), 200),
        (Answer("x", 200, failure="reset", reply=REPLY), "reset"),
        (Answer("x", 500, reply=REPLY), 500),
        (Answer("x", 400, body={"error": "no"}), {"error": "no"}),
        (Answer("x", None, failure="never asked", body={}), "never asked"),
    ],
    ids=["no reply", "broken off", "another status", "refused", "unanswered"],
)
def test_a_request_that_was_not_served_is_a_fault_with_what_came_instead(answer: Answer, got: object) -> None:
    ledger = Ledger(CHECK)
    assert ledger.reply(dataclasses.replace(a_case(), answer=answer)) is None
    (one,) = found(ledger)
    assert (one.message, one.want, one.got) == (f"not served (status {answer.status})", "a reply", got)


def test_a_fault_has_the_verdict_of_its_law_or_the_one_that_it_is_given() -> None:
    ledger = Ledger(CHECK)
    ledger.fault_of_start("plain", "wrong")
    ledger.fault_of_start("plain", "worse", verdict=Verdict.DIED)
    ledger.fault(a_case(), "wrong")
    ledger.fault(a_case(), "worse", verdict=Verdict.DIED)
    assert [one.verdict for one in found(ledger)] == [Verdict.MISMATCH, Verdict.DIED] * 2


def test_a_finding_says_how_to_see_it_again_on_the_reference_engine_where_no_subject_is_named() -> None:
    ledger = Ledger(CHECK)
    ledger.fault(a_case(), "wrong")
    assert [one.repeat for one in found(ledger)] == ["draftproof run --subject forward-serve --check a-law"]


def test_a_ledger_that_was_asked_nothing_is_blind_at_no_start() -> None:
    (one,) = Ledger(CHECK).result({}).findings
    assert (one.verdict, one.start, one.message) == (
        Verdict.BLIND,
        "",
        "examined nothing: the plan asks nothing for this check",
    )
