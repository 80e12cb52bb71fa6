"""What the checks of path and counts read: answers with their counts, beside what the path must have been.

The laws on paths hold for every request of a run. So these checks read what their own slice asked for and, in passing, every
other answer of the plan that came with counts; only the former is missed when it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.checks.check import Ledger
from harness.checks.evidence import Case, Evidence
from harness.oracle.predict import Prediction
from harness.records.need import Need, lacked_by_arm
from harness.records.recording import Counts


@dataclass(frozen=True, slots=True)
class Walk:
    """One answered request: what it says of its path, and what is predicted."""

    case: Case
    counts: Counts
    want: Prediction


def walks(
    evidence: Evidence,
    ledger: Ledger,
    check: str,
    concerns: Callable[[Case, Prediction], bool] = lambda _case, _want: True,
) -> Iterator[Walk]:
    """Yield every walk of the run that the check `concerns`, counted as examined; arms whose drafter no oracle knows have none.

    What the check's own slice asked for must be served, carry counts and be predictable by the plain arm's answer: else a fault.
    """
    for case in evidence.all_cases:
        if lacked_by_arm(Need.PREDICTIONS, case.facts, evidence.declared):
            continue
        is_asked = check in case.request.checks
        if is_asked and ledger.reply(case) is None:
            continue
        want = evidence.prediction(case)
        if is_asked and case.answer.counts is None:
            ledger.fault(case, "no counts came with the answer", want="counts", got=None)
        elif is_asked and want is None and evidence.declared.reports_path:
            ledger.fault(case, "nothing predicts its path", want="a plain reply that was served to its end", got=None)
        elif want is not None and case.answer.status == 200 and case.answer.counts is not None and concerns(case, want):
            ledger.examine(case.start.id)
            yield Walk(case, case.answer.counts, want)


def predicted(evidence: Evidence, check: str) -> list[tuple[Case, Prediction]] | None:
    """Return all that the check's own slice asks with its prediction; None where one lacks it.

    Preconditions are read from these, so that they are properties of the plan and of the plain arm: a fault of the arm that is
    judged never looks like a plan that asks too little.
    """
    cases = [(case, evidence.prediction(case)) for case in evidence.cases(check)]
    known = [(case, want) for case, want in cases if want is not None]
    return known if len(known) == len(cases) else None
