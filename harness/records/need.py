"""What a law must be able to see of a subject, beside its replies; and why a subject cannot show it."""

from __future__ import annotations

import enum

from harness.records.recording import ArmFacts, Declared


class Need(enum.StrEnum):
    """One thing that a subject may show or not."""

    PATHS = "paths"  # path and reason of each request, rounds and plain steps
    ROUNDS = "rounds"  # the ids proposed in each round
    PREDICTIONS = "predictions"  # of an arm that drafts: an oracle knows its path
    REFUSALS = "refusals"  # refusals name the field that is wrong
    KNOWN_FAULTS = "known-faults"  # its description pins some
    CAPABILITIES = "capabilities"  # its description declares what happens to each field


def lacked_by_subject(need: Need, declared: Declared) -> str:
    """Return why a subject cannot show something on any arm; "" where it can."""
    if need is Need.PATHS and not declared.reports_path:
        return "it names neither path nor reason of a request, nor its plain steps"
    if need is Need.ROUNDS and not declared.reports_rounds:
        return "it does not list its rounds"
    if need is Need.REFUSALS and not declared.names_refusals:
        return "its refusals do not name a field"
    if need is Need.KNOWN_FAULTS and not declared.known_faults:
        return "its description pins no fault"
    if need is Need.CAPABILITIES and not any(declared.capabilities.values()):
        return "its description declares no capabilities"
    return ""


def lacked_by_arm(need: Need, facts: ArmFacts) -> str:
    """Return why one arm cannot show what its subject can; "" where it can."""
    drafts_unpredicted = facts.drafter != "none" and not facts.oracle and facts.expect == "engaged"
    return "counts not predicted: no oracle knows its drafter" if need is Need.PREDICTIONS and drafts_unpredicted else ""
