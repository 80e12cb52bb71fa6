"""A ledger's law, a case, counts and a reply to compare, and evidence whose predictions are given. For tests only."""

from __future__ import annotations

import msgspec

from harness.checks.check import Check, Ledger
from harness.checks.evidence import Case, Evidence
from harness.oracle.predict import Prediction
from harness.records.finding import Finding, Verdict
from harness.records.recording import Counts, Reply, Run
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


def declaring(**said: bool) -> Run:
    """A run of a subject that declares something else."""
    run = run_of("same-reply")
    return msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, **said))


class Foretold(Evidence):
    """Evidence with a given prediction for every case."""

    def __init__(self, prediction: Prediction | None, run: Run) -> None:
        super().__init__(run)
        self._given = prediction

    def prediction(self, case: Case) -> Prediction | None:
        """Return what was given."""
        assert isinstance(case, Case)
        return self._given


def found(ledger: Ledger) -> tuple[Finding, ...]:
    """What is written down, with something examined."""
    ledger.examine("plain")
    return ledger.result({}).findings
