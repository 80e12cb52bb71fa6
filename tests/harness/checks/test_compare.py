"""What equal means, and what a ledger writes down once or not at all."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from harness.checks.check import Ledger
from harness.checks.compare import (
    asked_of,
    ends_on_accepted_draft,
    equal_paths,
    equal_replies,
    num_not_run,
    pairs,
    rounds_of,
    served,
    speculates,
    untouched,
)
from harness.checks.evidence import Evidence
from harness.records.finding import Verdict
from harness.records.plan import Start, Tier
from harness.records.recording import Answer, Round
from tests.harness.checks.comparing import CHECK, COUNTS, REPLY, Foretold, a_case, declaring, found
from tests.harness.checks.replying import replanned, run_of, with_reply


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
    ("accepted", "plain", "not_run", "on_a_draft"),
    [(4, 3, 0, True), (1, 6, 0, True), (4, 2, 1, False), (0, 7, 0, False), (0, 6, 1, False)],
)
def test_a_reply_ends_on_a_draft_when_its_last_token_was_run(accepted: int, plain: int, not_run: int, on_a_draft: bool) -> None:
    counts = msgspec.structs.replace(COUNTS, accepted=accepted, plain=plain)
    assert num_not_run(counts) == not_run
    assert ends_on_accepted_draft(Answer("x", 200, counts=counts)) is on_a_draft


def test_an_answer_without_counts_ends_on_nothing_known() -> None:
    assert not ends_on_accepted_draft(Answer("x", 200))


def test_what_is_asked_is_the_same_in_whatever_order_its_fields_stand() -> None:
    case = a_case()
    turned = dict(reversed(list((case.request.body or {}).items())))
    assert len(turned) > 1
    assert asked_of(dataclasses.replace(case, request=msgspec.structs.replace(case.request, body=turned))) == asked_of(case)


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
    assert rounds_of(Foretold(None, silent), a_case()) == ()


def test_a_request_that_the_reference_was_not_asked_is_blind_and_those_behind_it_are_compared() -> None:
    run = run_of("same-reply")
    first, second = run.plan.starts[0].requests

    def forgetful(start: Start) -> Start:
        return msgspec.structs.replace(start, requests=(second,)) if start.id == "plain" else start

    ledger = Ledger(CHECK)
    got = [
        (case.start.id, case.request.id, other.start.id)
        for case, other in pairs(Evidence(replanned(run, forgetful)), ledger, "same-reply")
    ]
    assert got == [("lookup", second.id, "plain"), ("draft", second.id, "plain")]
    result = ledger.result({})
    assert result.examined == {"lookup": 1, "draft": 1}
    message = f"plain is not asked {first.id}, so nothing is compared"
    assert [(one.verdict, one.start, one.message) for one in result.findings] == [
        (Verdict.BLIND, "lookup", message),
        (Verdict.BLIND, "draft", message),
    ]


@pytest.mark.parametrize("name", ["counts", "no counts"])
def test_paths_of_which_one_has_no_counts_differ(name: str) -> None:
    counted, silent = Answer("x", 200, counts=COUNTS), Answer("x", 200)
    want, got = (counted, silent) if name == "counts" else (silent, counted)
    ledger = Ledger(CHECK)
    assert not equal_paths(ledger, a_case(), want, got, " of another")
    (one,) = found(ledger)
    assert (one.message, one.want, one.got) == ("counts of another differs", want.counts, got.counts)


def test_a_reply_without_ids_is_a_fault_only_of_a_subject_that_returns_ids() -> None:
    case, ledger = a_case(), Ledger(CHECK)
    mute = dataclasses.replace(case, answer=with_reply(case.answer, ids=None))
    assert served(Evidence(declaring(returns_ids=False)), ledger, mute) == mute.answer.reply
    assert found(ledger) == ()
    assert served(Evidence(declaring(returns_ids=True)), ledger, mute) is None
    assert [(one.want, one.got) for one in found(ledger)] == [("ids", None)]


def test_a_probe_that_was_not_asked_before_the_disturbance_is_blind() -> None:
    ledger = Ledger(CHECK)
    assert untouched(Evidence(run_of("same-reply")), ledger, a_case(), None) is False
    (one,) = found(ledger)
    message = "hit-1/24: the same was not asked undisturbed, so nothing is compared"
    assert (one.verdict, one.start, one.message) == (Verdict.BLIND, "lookup", message)


def test_a_probe_whose_reply_differs_was_compared_and_one_that_is_equal_too() -> None:
    ledger, case = Ledger(CHECK), a_case()
    evidence = Evidence(run_of("same-reply"))
    assert untouched(evidence, ledger, case, case) is True
    assert found(ledger) == ()
    other = dataclasses.replace(case, answer=with_reply(case.answer, finish_reason="stop"))
    assert untouched(evidence, ledger, other, case) is True
    assert [one.message for one in found(ledger)] == ["finish_reason of hit-1/24 differs"]


def test_a_probe_without_ids_before_or_behind_the_disturbance_is_a_fault_and_is_not_compared() -> None:
    case = a_case()
    mute = dataclasses.replace(case, answer=with_reply(case.answer, ids=None))
    for before, behind in ((mute, case), (case, mute)):
        ledger = Ledger(CHECK)
        assert untouched(Evidence(run_of("same-reply")), ledger, behind, before) is False
        assert [one.message for one in found(ledger)] == ["no token ids came with the reply"]


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
