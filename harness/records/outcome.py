"""What a mutation run yields: one outcome per mutant, its row of the kill matrix, the probes, and what stays unproven."""

from __future__ import annotations

import enum

import msgspec

from harness.records.finding import Finding


class Outcome(enum.StrEnum):
    """What became of one mutant."""

    KILLED = "KILLED"  # every named killer has a finding that the clean run lacks
    WRONG_KILLER = "WRONG-KILLER"  # some or all named killers are silent, other checks failed
    SURVIVED = "SURVIVED"
    NOT_REACHED = "NOT-REACHED"  # a survivor whose planted statement never ran
    STALE = "STALE"  # the anchor is missing or not unique, or a killer does not exist
    UNVIABLE = "UNVIABLE"  # does not build or import, or changes nothing
    NO_START = "NO-START"
    DIED = "DIED"
    TIMEOUT = "TIMEOUT"
    FLAKY = "FLAKY"  # a fresh process answers differently
    ACCEPTED = "ACCEPTED"  # an equivalent mutant, with reason and expiry date


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the fault is planted: a file of the source tree, and the changed text's place; lines and columns from 1."""

    file: str
    line: int = 1
    column: int = 1
    end_line: int = 1
    end_column: int = 2
    replacement: str = ""


class MutantResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One mutant, run and decided: its outcome and its row of the kill matrix."""

    id: str
    family: str  # stem of its catalogue file
    kind: str
    title: str
    why: str
    outcome: Outcome
    reason: str  # one sentence; "" for a plain kill
    killers: tuple[str, ...]
    place: Place
    failed: tuple[str, ...] = ()  # checks and test nodes with a finding that the clean run lacks
    passed: tuple[str, ...] = ()  # asked, and silent; everything else was not asked
    missing: tuple[str, ...] = ()  # killers that are silent
    also: tuple[str, ...] = ()  # failed, and neither killers nor allowed
    findings: tuple[Finding, ...] = ()  # the first new finding of each failed check
    num_runs: int = 0  # how often the subject was recorded with it
    seconds: float = 0.0
    fingerprint: str = ""  # of the entry and of all that its outcome hangs on; a resumed run compares it


class ProbeResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One probe of the machinery itself."""

    id: str
    holds: bool
    message: str  # what was seen
    unproven: tuple[str, ...] = ()  # checks that the forced-fail mutant did not make fail
    stale: bool = False  # its anchors are missing: the catalogue is at fault, not the machinery
    log: str = ""  # all that a person may want to read of it


class MutationReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A whole mutation run."""

    subject: str
    recipe: str
    checks: tuple[str, ...]  # of the subject's gate, in order; columns of the matrix
    results: tuple[MutantResult, ...]
    probes: tuple[ProbeResult, ...]
    unproven: tuple[str, ...] = ()  # gate checks that are the killer of no killed mutant
    not_tested: dict[str, str] = {}  # what the subject cannot show, and why
    not_applicable: dict[str, str] = {}  # mutants that the subject cannot have, and why
    baseline: tuple[str, ...] = ()  # what clean runs found, or how they failed: the baseline is red
    problems: tuple[str, ...] = ()  # of the catalogue as a whole: expired or unknown acceptances
    whole: bool = True  # False: a selection, for which no check is called unproven that it does not name
    seconds: float = 0.0
    num_run: int = 0  # mutants that were run, not taken from a former run
    mutants_seconds: float = 0.0  # wall seconds of these; the rest went into the probes
    cpu_seconds: float = 0.0  # of everything: the tool, the subjects, the tracer, the test nodes, the probes
