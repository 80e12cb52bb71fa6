"""What equal means, and what a ledger writes down once or not at all."""

from __future__ import annotations

import msgspec
import pytest

from harness.checks.check import Check, Ledger
from harness.checks.compare import (
    asked_of,
    ends_on_accepted_draft,
    equal_paths,
    equal_replies,
    num_not_run,
    rounds_of,
    speculates,
)
from harness.checks.evidence import Case, Evidence
from harness.records.finding import Verdict
from harness.records.plan import Tier
from harness.records.recording import Answer, Counts, Reply, Round
from tests.harness.checks.replying import run_of

CHECK = Check("a-law", Verdict.MISMATCH, "It holds.", lambda _evidence, _ledger: None)
COUNTS = Counts("spec", "lookup", 3, 9, 4, 2, 10, 0, None, "-")
REPLY = Reply("cmpl-1", "abc", (1, 2, 3), "length", None, 5, 3)


def a_case(start_id: str = "lookup") -> Case:
    """A case of some start."""
    evidence = Evidence(run_of("same-reply"))
    case = evidence.case(start_id, "hit-1/24")
    assert case is not None
    return case


def test_a_reply_equals_itself_and_writes_nothing() -> None:
    ledger = Ledger(CHECK)
    assert equal_replies(ledger, a_case(), REPLY, msgspec.structs.replace(REPLY, response_id="cmpl-2", cached_tokens=4))
    assert ledger.result({}).findings[0].message == "examined nothing: the plan asks nothing for this check"


def test_only_the_first_field_that_differs_is_written_down() -> None:
    ledger = Ledger(CHECK)
    other = msgspec.structs.replace(REPLY, text="abd", completion_tokens=4)
    assert not equal_replies(ledger, a_case(), REPLY, other, than=" of another")
    (one,) = ledger.result({}).findings
    assert (one.message, one.want, one.got, one.first_difference) == ("text of another differs", "abc", "abd", 2)


def test_paths_differ_by_count_or_else_by_round() -> None:
    ledger = Ledger(CHECK)
    want = Answer("x", 200, counts=COUNTS, rounds=(Round((1, 2), 2), Round((3,), 0)))
    assert equal_paths(ledger, a_case(), want, want)
    assert not equal_paths(ledger, a_case(), want, msgspec.structs.replace(want, rounds=want.rounds[:1] if want.rounds else ()))
    (one,) = ledger.result({}).findings
    assert (one.message, one.first_difference) == ("rounds differs", 1)


@pytest.mark.parametrize(
    ("accepted", "plain", "not_run", "on_a_draft"), [(4, 3, 0, True), (4, 2, 1, False), (0, 7, 0, False), (0, 6, 1, False)]
)
def test_a_reply_ends_on_a_draft_when_its_last_token_was_run(accepted: int, plain: int, not_run: int, on_a_draft: bool) -> None:
    counts = msgspec.structs.replace(COUNTS, accepted=accepted, plain=plain)
    assert num_not_run(counts) == not_run
    assert ends_on_accepted_draft(Answer("x", 200, counts=counts)) is on_a_draft


def test_an_answer_without_counts_ends_on_nothing_known() -> None:
    assert not ends_on_accepted_draft(Answer("x", 200))


def test_what_is_asked_is_told_apart_by_the_body_alone() -> None:
    evidence = Evidence(run_of("request-order", Tier.GATE))
    alone, after = (evidence.case("order/lookup", f"hit-1/24/{label}") for label in ("alone", "after-long"))
    assert alone is not None
    assert after is not None
    assert asked_of(alone) == asked_of(after)
    assert asked_of(alone, "max_tokens") != asked_of(alone)


def test_the_plain_arm_does_not_speculate() -> None:
    assert [speculates(a_case(start_id)) for start_id in ("plain", "lookup", "draft")] == [False, True, True]


def test_rounds_are_the_subjects_own_or_the_predicted_ones() -> None:
    run = run_of("same-reply")
    own = rounds_of(Evidence(run), a_case())
    silent = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, reports_rounds=False))
    assert own == a_case().answer.rounds
    assert rounds_of(Evidence(silent), a_case()) == own


def test_the_same_finding_twice_is_one() -> None:
    ledger = Ledger(CHECK)
    for _ in range(2):
        ledger.fault(a_case(), "not served", want=1, got=2)
    assert len(ledger.result({}).findings) == 1


def test_a_precondition_that_does_not_hold_is_blind_where_no_fault_says_more() -> None:
    ledger = Ledger(CHECK)
    ledger.precondition("lookup", True, "holds")
    ledger.precondition("lookup", False, "does not hold", want="one", got=0)
    ledger.fault(a_case("draft"), "wrong")
    ledger.precondition("draft", False, "does not hold")
    assert [(one.start, one.verdict) for one in ledger.result({}).findings] == [
        ("lookup", Verdict.BLIND),
        ("draft", Verdict.MISMATCH),
    ]
