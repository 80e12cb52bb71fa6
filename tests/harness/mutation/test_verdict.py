from __future__ import annotations

import itertools

import msgspec
import pytest

from harness.mutation.verdict import (
    Attempt,
    Confirmation,
    Event,
    agrees,
    attempt,
    decide,
    glance,
    missing,
    new_findings,
)
from harness.records.finding import Finding, Verdict
from harness.records.outcome import Outcome
from tests.harness.mutation.toy import entry

A, B, C = "check-a", "check-b", "check-c"
ENTRY = entry("x", "y", A, B, allowed=(C,))
DYING = entry("x", "y", A, B, died_kills=True)


def seen(*failed: str, asked: tuple[str, ...] = (A, B), events: tuple[Event, ...] = ()) -> Attempt:
    return Attempt(asked, failed, events)


def finding(check: str, start: str = "lookup", request: str = "r", message: str = "differs", got: object = 1) -> Finding:
    return Finding(check, Verdict.MISMATCH, start, request, message, got=got)


@pytest.mark.parametrize(
    ("failed", "events", "outcome"),
    [
        ((A, B), (), Outcome.KILLED),
        ((A,), (), Outcome.WRONG_KILLER),
        ((B,), (), Outcome.WRONG_KILLER),
        ((C,), (), Outcome.WRONG_KILLER),
        ((), (), Outcome.SURVIVED),
        ((A, B), (Event.TIMEOUT,), Outcome.TIMEOUT),
        ((A, B), (Event.NO_START,), Outcome.NO_START),
        ((A, B), (Event.DIED,), Outcome.DIED),
        ((A, B), (Event.CANNOT_IMPORT, Event.NO_START), Outcome.UNVIABLE),
        ((A, B), (Event.TIMEOUT, Event.DIED), Outcome.TIMEOUT),
        ((A, B), (Event.NO_START, Event.DIED), Outcome.NO_START),
        ((), (Event.DIED,), Outcome.DIED),
    ],
)
def test_one_look_speaks_for_one_outcome(failed: tuple[str, ...], events: tuple[Event, ...], outcome: Outcome) -> None:
    assert glance(ENTRY, seen(*failed, asked=(A, B, C), events=events)) is outcome


@pytest.mark.parametrize(
    ("failed", "events", "outcome"),
    [
        ((A, B), (Event.DIED,), Outcome.KILLED),
        ((A,), (Event.DIED,), Outcome.DIED),
        ((), (Event.DIED,), Outcome.DIED),
        ((A, B), (Event.TIMEOUT, Event.DIED), Outcome.TIMEOUT),
        ((A, B), (Event.NO_START,), Outcome.NO_START),
    ],
)
def test_where_deaths_kill_all_killers_must_fail_still(
    failed: tuple[str, ...], events: tuple[Event, ...], outcome: Outcome
) -> None:
    assert glance(DYING, seen(*failed, events=events)) is outcome


def test_a_kill_needs_every_killer_over_all_subsets() -> None:
    for size in range(3):
        for failed in itertools.combinations((A, B), size):
            assert (glance(ENTRY, seen(*failed)) is Outcome.KILLED) is (set(failed) == {A, B})


def test_only_findings_at_places_that_the_clean_run_lacks_are_new() -> None:
    clean = [finding(A), finding(B, request="")]
    mutant = [finding(A, message="otherwise", got=2), finding(A, request="s"), finding(C), finding(B, request="")]
    assert new_findings(clean, mutant) == (mutant[1], mutant[2])


def test_a_known_fault_of_the_subject_is_no_finding_of_the_mutant() -> None:
    known = msgspec.structs.replace(finding(A), known="fault-a")
    assert new_findings([], [known, finding(B)]) == (finding(B),)


def test_a_check_that_fails_in_the_clean_run_at_the_same_place_is_no_killer() -> None:
    judged = attempt((A, B), [finding(A)], [finding(A, got=9), finding(B)], ())
    assert (judged.failed, [each.check for each in judged.findings]) == ((B,), [B])
    assert missing(ENTRY, judged.failed) == (A,)


def test_an_attempt_keeps_the_order_of_the_checks_and_of_badness() -> None:
    judged = attempt((B, A), [], [finding(A), finding(B)], [Event.DIED, Event.TIMEOUT, Event.DIED])
    assert (judged.failed, judged.events) == ((B, A), (Event.TIMEOUT, Event.DIED))


def test_a_check_that_was_not_asked_has_no_say() -> None:
    judged = attempt((A,), [], [finding(B)], ())
    assert (judged.failed, judged.findings) == ((), ())


def test_a_plain_kill_needs_no_confirmation_and_everything_else_does() -> None:
    assert decide(ENTRY, seen(A, B)).outcome is Outcome.KILLED
    for failed, events in (((A,), ()), ((), ()), ((A, B), (Event.TIMEOUT,))):
        with pytest.raises(ValueError, match="confirm it in a fresh process"):
            decide(ENTRY, seen(*failed, events=events))


@pytest.mark.parametrize(
    ("first", "confirmed", "outcome"),
    [
        (seen(), Confirmation(seen(asked=(A, B, C)), same_plan=False), Outcome.SURVIVED),
        (seen(), Confirmation(seen(C, asked=(A, B, C)), same_plan=False, again=seen()), Outcome.WRONG_KILLER),
        (seen(), Confirmation(seen(), same_plan=True, not_reached="never ran"), Outcome.NOT_REACHED),
        (seen(A), Confirmation(seen(A, asked=(A, B, C)), same_plan=False), Outcome.WRONG_KILLER),
        (seen(A), Confirmation(seen(A, B, asked=(A, B, C)), same_plan=False, again=seen(A)), Outcome.KILLED),
        (seen(A), Confirmation(seen(B, asked=(A, B, C)), same_plan=False, again=seen(A)), Outcome.KILLED),
        (seen(A), Confirmation(seen(A, B, asked=(A, B, C)), same_plan=False, again=seen(A, B)), Outcome.FLAKY),
        (seen(A), Confirmation(seen(A, B), same_plan=True), Outcome.FLAKY),
        (seen(A), Confirmation(seen(B), same_plan=True), Outcome.FLAKY),
        (seen(events=(Event.TIMEOUT,)), Confirmation(seen(events=(Event.TIMEOUT,)), same_plan=True), Outcome.TIMEOUT),
        (seen(events=(Event.TIMEOUT,)), Confirmation(seen(A, B), same_plan=True), Outcome.FLAKY),
        (seen(events=(Event.NO_START,)), Confirmation(seen(events=(Event.NO_START,)), same_plan=True), Outcome.NO_START),
        (seen(events=(Event.DIED,)), Confirmation(seen(events=(Event.DIED,)), same_plan=True), Outcome.DIED),
        (seen(), Confirmation(seen(events=(Event.DIED,)), same_plan=False, again=seen()), Outcome.DIED),
        (seen(), Confirmation(seen(events=(Event.TIMEOUT,)), same_plan=False, again=seen()), Outcome.TIMEOUT),
        (seen(), Confirmation(seen(events=(Event.TIMEOUT,)), same_plan=False, again=seen(A, B)), Outcome.FLAKY),
    ],
)
def test_a_confirmed_mutant_comes_to_its_outcome(first: Attempt, confirmed: Confirmation, outcome: Outcome) -> None:
    assert decide(ENTRY, first, confirmed).outcome is outcome


def test_a_mutant_that_was_reached_in_a_run_with_findings_is_never_called_not_reached() -> None:
    confirmed = Confirmation(seen(A), same_plan=True, not_reached="never ran")
    assert decide(ENTRY, seen(A), confirmed).outcome is Outcome.WRONG_KILLER


def test_the_row_names_failed_passed_missing_and_also() -> None:
    other = "check-d"
    confirmed = Confirmation(seen(A, C, other, asked=(A, B, C, other)), same_plan=False, again=seen(A))
    decision = decide(ENTRY, seen(A), confirmed)
    assert (decision.failed, decision.passed, decision.missing, decision.also) == ((A, C, other), (B,), (B,), (other,))


@pytest.mark.parametrize(
    ("first", "confirmed", "reason"),
    [
        (seen(), Confirmation(seen(asked=(A, B, C)), same_plan=False), "no check failed of 3 asked"),
        (seen(C, asked=(A, B, C)), Confirmation(seen(C), same_plan=True), f"{A}, {B} silent; {C} failed"),
        (seen(), Confirmation(seen(A, B), same_plan=True), "SURVIVED at first, KILLED in a fresh process"),
        (seen(A), Confirmation(seen(B), same_plan=True), "WRONG-KILLER twice, but not the same killers failed"),
        (seen(), Confirmation(seen(), same_plan=True, not_reached="line 7 never ran"), "line 7 never ran"),
        (
            seen(A),
            Confirmation(seen(A, B), same_plan=False, again=seen(A)),
            "by the gate plan only: the mutation slices of its killers do not show it",
        ),
    ],
)
def test_an_outcome_says_why(first: Attempt, confirmed: Confirmation, reason: str) -> None:
    assert decide(ENTRY, first, confirmed).reason == reason


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Event.CANNOT_IMPORT, "its module does not import"),
        (Event.TIMEOUT, "ran out of its budget; a timeout is no kill"),
        (Event.NO_START, "the subject never became ready; a broken start is no kill"),
        (Event.DIED, "the subject died; the entry does not say died_kills, or a killer is silent"),
    ],
)
def test_a_broken_run_says_why_it_is_no_kill(event: Event, reason: str) -> None:
    broken = seen(A, B, events=(event,))
    assert decide(ENTRY, broken, Confirmation(broken, same_plan=True)).reason == reason


@pytest.mark.parametrize(
    ("first", "confirmed"),
    [
        (seen(A, asked=(A,)), Confirmation(seen(B, C, asked=(B, C)), same_plan=True)),
        (seen(A, asked=(A,)), Confirmation(seen(B, C, asked=(B, C)), same_plan=False, again=seen(A, asked=(A,)))),
    ],
    ids=["flaky", "killed by the gate plan alone"],
)
def test_the_row_holds_what_either_of_two_looks_saw(first: Attempt, confirmed: Confirmation) -> None:
    decision = decide(ENTRY, first, confirmed)
    assert (decision.failed, decision.passed, decision.missing, decision.also) == ((A, B, C), (), (), ())


def test_two_plans_that_disagree_without_a_third_run_are_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError, match="settled by a third run"):
        decide(ENTRY, seen(), Confirmation(seen(A), same_plan=False))


def test_two_runs_agree_by_outcome_and_by_failing_killers() -> None:
    assert agrees(ENTRY, seen(A, C, asked=(A, B, C)), seen(A))
    assert not agrees(ENTRY, seen(A), seen(B))
    assert not agrees(ENTRY, seen(), seen(A))
