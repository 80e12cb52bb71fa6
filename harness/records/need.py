"""What a law must be able to see of a subject, beside its replies; and why a subject cannot show it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from harness.records.recording import ArmFacts, Declared


class Need(enum.StrEnum):
    """One thing that a subject may show or not."""

    COUNTS = "counts"  # what each request drafted and accepted
    PATHS = "paths"  # path and reason of each request, rounds and plain steps
    ROUNDS = "rounds"  # the ids proposed in each round
    LENGTHS = "lengths"  # how many of each round were accepted
    PREDICTIONS = "predictions"  # of an arm that drafts: an oracle knows its path
    REFUSALS = "refusals"  # refusals name the field that is wrong
    KNOWN_FAULTS = "known-faults"  # its description pins some
    CAPABILITIES = "capabilities"  # its description declares what happens to each field
    UNCERTIFIED = "uncertified"  # its replies may differ as near-ties
    SAMPLED_DRAFTS = "sampled-drafts"  # of an arm that drafts: it drafts for sampled requests too


def lacked_by_subject(need: Need, declared: Declared) -> str:
    """Return why a subject cannot show something on any arm; "" where it can."""
    samples_with_drafts = any(map(_samples_with_drafts, declared.capabilities.values()))
    shown = {
        Need.COUNTS: (declared.reports_counts, "it does not say what a request drafted, so that it drafts at all is not shown"),
        Need.PATHS: (declared.reports_path, "it names neither path nor reason of a request, nor its plain steps"),
        Need.ROUNDS: (declared.reports_rounds, "it does not list its rounds"),
        Need.LENGTHS: (declared.reports_rounds and not declared.reserves_token, _why_no_lengths(declared)),
        Need.REFUSALS: (declared.names_refusals, "its refusals do not name a field"),
        Need.KNOWN_FAULTS: (bool(declared.known_faults), "its description pins no fault"),
        Need.CAPABILITIES: (any(declared.capabilities.values()), "its description declares no capabilities"),
        Need.UNCERTIFIED: (not declared.certified, "its replies are certified: whatever differs is a fault"),
        Need.SAMPLED_DRAFTS: (samples_with_drafts, "it does not speculate while sampling"),
    }
    is_shown, why = shown.get(need, (True, ""))
    return "" if is_shown else why


def _why_no_lengths(declared: Declared) -> str:
    if not declared.reports_rounds:
        return "predicted only: it does not list its rounds"
    return "none of its replies ends by its budget on an accepted draft, which the law wants to see"


def lacked_by_arm(need: Need, facts: ArmFacts, declared: Declared) -> str:
    """Return why one arm cannot show what its subject can; "" where it can."""
    if facts.drafter == "none":
        return ""
    is_engaged = facts.expect == "engaged"
    if need is Need.PREDICTIONS and is_engaged and not facts.oracle:
        return "counts not predicted: no oracle knows its drafter"
    if need is Need.SAMPLED_DRAFTS and not (is_engaged and _samples_with_drafts(declared.capabilities.get(facts.drafter, {}))):
        return "it does not speculate while sampling"
    return ""


def all_lacked_by_subject(needs: Iterable[Need], declared: Declared) -> list[str]:
    """Return every reason why a subject cannot show some of these things on any arm."""
    return list(dict.fromkeys(why for need in needs if (why := lacked_by_subject(need, declared))))


def all_lacked_by_arm(needs: Iterable[Need], facts: ArmFacts, declared: Declared) -> list[str]:
    """Return every reason why one arm cannot show what its subject can of these things."""
    return list(dict.fromkeys(why for need in needs if (why := lacked_by_arm(need, facts, declared))))


def _samples_with_drafts(behaviours: Mapping[str, str]) -> bool:
    return behaviours.get("temperature") == "engaged"
