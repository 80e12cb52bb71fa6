"""What answers and predictions tell of a path: counts, rounds, and where a reply ended."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from harness.checks.check import Ledger
from harness.checks.compare import as_predicted, both_told, is_told, knows_rounds, landed_at_end, num_not_run, told
from harness.checks.evidence import Case, Evidence
from harness.oracle.predict import Prediction
from harness.records.finding import Verdict
from harness.records.recording import Answer, Counts, Round
from tests.harness.checks.comparing import CHECK, COUNTS, Foretold, a_case, declaring, found
from tests.harness.checks.replying import run_of

WITHOUT_PASSES = msgspec.structs.replace(COUNTS, rounds=None, plain=None)
LANDED = Prediction("spec", "lookup", 10, rounds=(Round((1,), 0), Round((4,), 0), Round((2, 3), 1)), last=0)
PREDICTED = msgspec.structs.replace(LANDED, counts=COUNTS)


@pytest.mark.parametrize("name", ["rounds", "plain"])
def test_counts_that_do_not_tell_all_passes_do_not_tell_what_was_not_run(name: str) -> None:
    assert num_not_run(msgspec.structs.replace(COUNTS, **{name: None})) is None


@pytest.mark.parametrize("counts", [None, WITHOUT_PASSES], ids=["no counts", "counts without passes"])
@pytest.mark.parametrize(
    ("prediction", "want"),
    [
        (LANDED, True),
        (msgspec.structs.replace(LANDED, last=1), False),
        (msgspec.structs.replace(LANDED, rounds=(Round((2, 3), 2), Round((1,), 0))), False),
        (msgspec.structs.replace(LANDED, rounds=()), False),
        (msgspec.structs.replace(LANDED, last=None), None),
        (msgspec.structs.replace(LANDED, rounds=None), None),
        (None, None),
    ],
    ids=["landed", "not run", "rejected", "no rounds", "unknown end", "unknown rounds", "unknown"],
)
def test_where_a_reply_ended_is_predicted_where_its_counts_do_not_tell(
    counts: Counts | None, prediction: Prediction | None, want: bool | None
) -> None:
    case = dataclasses.replace(a_case(), answer=Answer("x", 200, counts=counts))
    assert landed_at_end(Foretold(prediction, run_of("same-reply")), case) is want


@pytest.mark.parametrize(("plain", "want"), [(3, True), (2, False)])
def test_where_a_reply_ended_is_told_by_its_counts_whatever_is_predicted(plain: int, want: bool) -> None:
    case = dataclasses.replace(a_case(), answer=Answer("x", 200, counts=msgspec.structs.replace(COUNTS, plain=plain)))
    for last in (0, 1):
        evidence = Foretold(msgspec.structs.replace(LANDED, last=last), run_of("same-reply"))
        assert landed_at_end(evidence, case) is want


@pytest.mark.parametrize(
    ("reports_path", "landed", "want"),
    [(True, [None], True), (False, [None, False], True), (False, [None, None], False), (True, [], True), (False, [], False)],
)
def test_where_replies_ended_is_told_by_any_of_them_or_by_a_subject_that_names_its_paths(
    reports_path: bool, landed: list[bool | None], want: bool
) -> None:
    assert is_told(Evidence(declaring(reports_path=reports_path)), landed) is want


@pytest.mark.parametrize(
    ("reports_rounds", "prediction", "want"),
    [
        (True, None, True),
        (False, None, False),
        (False, LANDED, True),
        (False, msgspec.structs.replace(LANDED, rounds=None), False),
        (False, msgspec.structs.replace(LANDED, rounds=()), True),
    ],
)
def test_rounds_are_known_where_they_are_reported_or_predicted(
    reports_rounds: bool, prediction: Prediction | None, want: bool
) -> None:
    evidence = Foretold(prediction, declaring(reports_rounds=reports_rounds))
    assert knows_rounds(evidence, [a_case()]) is want


def test_two_witnesses_tell_together_what_either_tells_and_the_first_is_believed() -> None:
    first = msgspec.structs.replace(COUNTS, rounds=None, plain=None, cached=None)
    second = msgspec.structs.replace(COUNTS, drafted=99, plain=None, cached=7)
    want = msgspec.structs.replace(first, rounds=COUNTS.rounds, cached=7)
    assert told(Answer("x", 200, counts=first, usage_counts=second)) == want


@pytest.mark.parametrize(("first", "second"), [(COUNTS, None), (None, COUNTS), (None, None)])
def test_one_witness_alone_is_told_as_it_is(first: Counts | None, second: Counts | None) -> None:
    assert told(Answer("x", 200, counts=first, usage_counts=second)) == (first or second)


@pytest.mark.parametrize(
    ("want", "got", "unshared"),
    [
        ({}, {}, set()),
        ({"fallback": 4}, {}, set()),
        ({"cached": None}, {}, {"cached"}),
        ({}, {"reason": None}, {"reason"}),
        ({"cached": None}, {"cached": None}, {"cached"}),
        ({"plain": None}, {}, {"plain", "fallback"}),
        ({}, {"rounds": None}, {"rounds", "fallback"}),
    ],
)
def test_counts_that_both_witnesses_tell_and_a_fallback_where_both_tell_their_passes(
    want: dict[str, object], got: dict[str, object], unshared: set[str]
) -> None:
    names = both_told(msgspec.structs.replace(COUNTS, **want), msgspec.structs.replace(COUNTS, **got))
    assert set(Counts.__struct_fields__) - set(names) == unshared


def answering(counts: Counts | None, rounds: tuple[Round, ...] | None = PREDICTED.rounds) -> Case:
    """A case with these counts and rounds."""
    return dataclasses.replace(a_case(), answer=Answer("x", 200, counts=counts, rounds=rounds))


def test_a_path_as_predicted_leaves_nothing_written_down() -> None:
    ledger = Ledger(CHECK)
    assert as_predicted(Foretold(PREDICTED, run_of("same-reply")), ledger, answering(COUNTS)) is True
    assert found(ledger) == ()


@pytest.mark.parametrize(
    ("prediction", "why"),
    [(None, ""), (msgspec.structs.replace(LANDED, unknown="nobody knows its drafter"), " (nobody knows its drafter)")],
)
def test_a_path_that_nothing_predicts_is_blind_and_says_why(prediction: Prediction | None, why: str) -> None:
    ledger = Ledger(CHECK)
    assert as_predicted(Foretold(prediction, run_of("same-reply")), ledger, answering(COUNTS)) is False
    (one,) = found(ledger)
    assert (one.verdict, one.start, one.message) == (Verdict.BLIND, "lookup", f"hit-1/24: nothing predicts its path{why}")


def test_an_answer_without_counts_differs_from_its_prediction() -> None:
    ledger = Ledger(CHECK)
    assert as_predicted(Foretold(PREDICTED, run_of("same-reply")), ledger, answering(None)) is False
    (one,) = found(ledger)
    assert (one.start, one.message, one.want, one.got) == ("lookup", "counts that the rules give differs", COUNTS, None)


def test_a_count_left_aside_may_differ_from_its_prediction_and_others_are_named() -> None:
    case = answering(msgspec.structs.replace(COUNTS, cached=5, drafted=8))
    evidence, ledger = Foretold(PREDICTED, run_of("same-reply")), Ledger(CHECK)
    assert as_predicted(evidence, ledger, case, "cached", "drafted") is True
    assert as_predicted(evidence, ledger, case, "cached") is False
    (one,) = found(ledger)
    assert (one.message, one.want, one.got) == ("drafted of the path that the rules give differs", {"drafted": 9}, {"drafted": 8})


@pytest.mark.parametrize("reports_rounds", [True, False])
def test_rounds_are_held_against_their_prediction_where_the_subject_reports_them(reports_rounds: bool) -> None:
    evidence, ledger = Foretold(PREDICTED, declaring(reports_rounds=reports_rounds)), Ledger(CHECK)
    assert as_predicted(evidence, ledger, answering(COUNTS, ())) is not reports_rounds
    assert [one.message for one in found(ledger)] == ["rounds that the rules give differs"] * reports_rounds
