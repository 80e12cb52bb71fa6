"""What judging yields: findings, what was examined, and the one verdict of a run."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from harness.records.divergence import Divergence


class Verdict(enum.StrEnum):
    """The verdict of a run, worst first. The worst that holds is the run's."""

    BLIND = "BLIND"  # a control or a precondition failed: the run proves nothing
    DIED = "DIED"
    INCONCLUSIVE = "INCONCLUSIVE"  # the plain arm differs from itself
    MISMATCH = "MISMATCH"
    NOT_ENGAGED = "NOT-ENGAGED"
    WRONG_PATH = "WRONG-PATH"  # counts, drafts, reasons
    DEVICE = "DEVICE"
    IGNORED = "IGNORED"  # a field silently dropped
    KNOWN_GONE = "KNOWN-GONE"  # a pinned fault is no longer there
    NOT_TRACED = "NOT-TRACED"
    LOSSLESS = "LOSSLESS"

    @property
    def rank(self) -> int:
        """Position in the order of badness; 0 is the worst."""
        return list(Verdict).index(self)


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One broken law at one place."""

    check: str
    verdict: Verdict
    start: str  # id of the start
    request: str  # id of the request; "" when the start itself is at fault
    message: str  # one sentence: what is wrong
    want: Any = None
    got: Any = None
    first_difference: int | None = None  # index into the compared sequence
    repeat: str = ""  # the command that repeats it
    known: str = ""  # XFAIL: the known fault that it is, or NEAR-TIE, which does not count against the subject
    divergence: Divergence | None = None  # of a finding on a reply: where it left the one that it must be, and what led there


class CheckResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one check looked at and what it found. A check that examined nothing proves nothing."""

    check: str
    examined: dict[str, int]  # start id -> number of answers looked at
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()  # what it has to say where nothing is wrong: rates, sizes of samples


class Judgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All checks of a plan, applied."""

    verdict: Verdict
    results: tuple[CheckResult, ...]
    not_tested: dict[str, str] = {}  # what this subject cannot show, and why

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of the checks."""
        return tuple(finding for result in self.results for finding in result.findings)

    @property
    def counted(self) -> tuple[Finding, ...]:
        """The findings that count against the subject: all but its known faults."""
        return tuple(finding for finding in self.findings if not finding.known)
