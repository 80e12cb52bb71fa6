"""What becomes of a mutant: a pure decision from its entry, the clean run's findings, its own runs' findings, and how they ended.

The rule of the house: every named killer must have a finding that the clean run lacks. A timeout is never a kill, a broken start
is never a kill, and a death only where the entry says so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.mutation.entry import Entry
from harness.records.finding import Finding
from harness.records.outcome import Outcome


class Event(enum.StrEnum):
    """Something that happened to a run besides findings, worst first."""

    CANNOT_IMPORT = "cannot import"
    TIMEOUT = "ran out of its budget"
    NO_START = "never became ready"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a mutant, judged against the clean run of the same plan."""

    asked: tuple[str, ...]  # checks and test nodes that were asked, in order
    failed: tuple[str, ...]  # those with a finding that the clean run lacks
    events: tuple[Event, ...] = ()
    findings: tuple[Finding, ...] = ()  # the new ones


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The second look at whatever is no plain kill, in a fresh process."""

    attempt: Attempt
    same_plan: bool  # it ran the plan of the first look; False: the whole gate plan
    again: Attempt | None = None  # the first look's plan once more in a fresh process, where the two did not agree
    not_reached: str = ""  # why the planted statement cannot have run; "" = it may have


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a mutant and its row."""

    outcome: Outcome
    reason: str
    failed: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def new_findings(clean: Iterable[Finding], mutant: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the mutant's findings at places where the same check found nothing in the clean run; known faults are none."""
    places = {_place(finding) for finding in clean}
    return tuple(finding for finding in mutant if not finding.known and _place(finding) not in places)


def attempt(asked: Sequence[str], clean: Iterable[Finding], mutant: Iterable[Finding], events: Iterable[Event]) -> Attempt:
    """Judge one run against the clean run of the same plan. `asked` are the checks that were applied to both."""
    found = new_findings(clean, mutant)
    failing = {finding.check for finding in found}
    order = list(Event)
    return Attempt(
        asked=tuple(asked),
        failed=tuple(check for check in asked if check in failing),
        events=tuple(sorted(set(events), key=order.index)),
        findings=tuple(finding for finding in found if finding.check in set(asked)),
    )


def missing(entry: Entry, failed: Iterable[str]) -> tuple[str, ...]:
    """Return the killers that are silent, in the entry's order."""
    failing = set(failed)
    return tuple(killer for killer in entry.killers if killer not in failing)


def glance(entry: Entry, seen: Attempt) -> Outcome:
    """Return the outcome that one run alone speaks for."""
    silent = missing(entry, seen.failed)
    for event in seen.events:
        if event is Event.CANNOT_IMPORT:
            return Outcome.UNVIABLE
        if event is Event.TIMEOUT:
            return Outcome.TIMEOUT
        if event is Event.NO_START:
            return Outcome.NO_START
        if event is Event.DIED and (silent or not entry.died_kills):
            return Outcome.DIED
    if not silent:
        return Outcome.KILLED
    return Outcome.WRONG_KILLER if seen.failed else Outcome.SURVIVED


def agrees(entry: Entry, one: Attempt, other: Attempt) -> bool:
    """Say whether two runs of a mutant tell the same: one outcome, and the same killers failing."""
    return glance(entry, one) is glance(entry, other) and missing(entry, one.failed) == missing(entry, other.failed)


def decide(entry: Entry, first: Attempt, confirmation: Confirmation | None = None) -> Decision:
    """Decide a mutant. Whatever is no plain kill needs a confirmation; without one it may not be decided (ValueError)."""
    seen = glance(entry, first)
    if confirmation is None:
        if seen is not Outcome.KILLED:
            raise ValueError(f"{entry.id}: {seen.value} after one look; confirm it in a fresh process")
        return _row(entry, Outcome.KILLED, "", first)
    if not _stable(entry, first, confirmation):
        then = glance(entry, confirmation.again or confirmation.attempt)
        told = f"{seen.value} at first, {then.value} in a fresh process"
        if then is seen:
            told = f"{seen.value} twice, but not the same killers failed"
        return _row(entry, Outcome.FLAKY, told, first, confirmation.attempt)
    return _confirmed(entry, first, confirmation)


def _confirmed(entry: Entry, first: Attempt, confirmation: Confirmation) -> Decision:
    later = glance(entry, confirmation.attempt)
    both = (first, confirmation.attempt)
    silent = missing(entry, (*first.failed, *confirmation.attempt.failed))
    reasons = {
        Outcome.UNVIABLE: "its module does not import",
        Outcome.TIMEOUT: "ran out of its budget; a timeout is no kill",
        Outcome.NO_START: "the subject never became ready; a broken start is no kill",
        Outcome.DIED: "the subject died; the entry does not say died_kills, or a killer is silent",
    }
    if later in reasons:
        return _row(entry, later, reasons[later], *both)
    if not silent:
        return _row(entry, Outcome.KILLED, "by the gate plan only: the mutation slices of its killers do not show it", *both)
    if first.failed or confirmation.attempt.failed:
        failed = dict.fromkeys((*first.failed, *confirmation.attempt.failed))
        return _row(entry, Outcome.WRONG_KILLER, f"{', '.join(silent)} silent; {', '.join(failed)} failed", *both)
    if confirmation.not_reached:
        return _row(entry, Outcome.NOT_REACHED, confirmation.not_reached, *both)
    return _row(entry, Outcome.SURVIVED, f"no check failed of {len(_asked(*both))} asked", *both)


def _stable(entry: Entry, first: Attempt, confirmation: Confirmation) -> bool:
    if confirmation.again is not None:
        return agrees(entry, first, confirmation.again)
    if confirmation.same_plan:
        return agrees(entry, first, confirmation.attempt)
    assert agrees(entry, first, confirmation.attempt), "two plans that disagree are settled by a third run"
    return True


def _row(entry: Entry, outcome: Outcome, reason: str, *attempts: Attempt) -> Decision:
    failing = {check for each in attempts for check in each.failed}
    asked = _asked(*attempts)
    named = {*entry.killers, *entry.allowed}
    failed = tuple(check for check in asked if check in failing)
    return Decision(
        outcome=outcome,
        reason=reason,
        failed=failed,
        passed=tuple(check for check in asked if check not in failing),
        missing=missing(entry, failing),
        also=tuple(check for check in failed if check not in named),
    )


def _asked(*attempts: Attempt) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check for each in attempts for check in each.asked))


def _place(finding: Finding) -> tuple[str, str, str]:
    return finding.check, finding.start, finding.request
