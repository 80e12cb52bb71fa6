"""Apply every check of a plan to a run and name the verdict. Pure: the same run gives the same judgement."""

from __future__ import annotations

from collections.abc import Sequence

from harness.checks.check import Check, Ledger
from harness.checks.evidence import Evidence
from harness.checks.known import marked
from harness.checks.statistical.uncertified import excused
from harness.oracle.draft_model import ALONE
from harness.records.finding import CheckResult, Judgement, Verdict
from harness.records.need import all_lacked_by_subject
from harness.records.recording import Run


def judge(run: Run, checks: Sequence[Check]) -> Judgement:
    """Judge a run by the checks that its plan names.

    A subject that died is DIED even where no check read it; a run without tracing is NOT-TRACED at best. Findings that are faults which
    the subject's description pins do not count, nor do near-ties on subjects that are not certified.
    """
    evidence = Evidence(run)
    wanted = set(run.plan.checks)
    missing = wanted - {check.id for check in checks}
    assert not missing, f"the plan names checks that nobody wrote: {sorted(missing)}"
    asked = [check for check in checks if check.id in wanted]
    not_tested = {check.id: why for check in asked if (why := _why_not(run, check))}
    tested = [check for check in asked if check.id not in not_tested]
    results = marked(run, [apply(check, evidence) for check in tested if check.after is None])
    results = excused(evidence, results)
    results += tuple(apply_after(check, evidence, results) for check in tested if check.after is not None)
    return Judgement(verdict=_verdict(run, results), results=results, not_tested={**run.plan.not_tested, **not_tested})


def apply(check: Check, evidence: Evidence) -> CheckResult:
    """Apply one check."""
    ledger = Ledger(check, evidence.run.subject)
    check.judge(evidence, ledger)
    references = {ALONE, *(start.reference for start in evidence.run.plan.starts)}  # asked for others' sake
    tagged: dict[str, int] = {}
    for case in evidence.cases(check.id):
        if case.start.id not in references:
            tagged[case.start.id] = tagged.get(case.start.id, 0) + 1
    return ledger.result(tagged)


def apply_after(check: Check, evidence: Evidence, results: Sequence[CheckResult]) -> CheckResult:
    """Apply a check that judges what the others found."""
    assert check.after is not None
    ledger = Ledger(check, evidence.run.subject)
    check.after(evidence, results, ledger)
    return ledger.result({})


def _why_not(run: Run, check: Check) -> str:
    """Return every reason why a check of the plan cannot be applied to this run; "" where it can."""
    is_untraced = check.needs_trace and not all(recording.trace.traced for recording in run.recordings)
    return "; ".join([*["tracing was switched off"] * is_untraced, *all_lacked_by_subject(check.needs, run.declared)])


def _verdict(run: Run, results: Sequence[CheckResult]) -> Verdict:
    verdicts = [finding.verdict for result in results for finding in result.findings if not finding.known]
    verdicts += [Verdict.DIED for recording in run.recordings if recording.failure]
    verdicts += [Verdict.NOT_TRACED for recording in run.recordings if not recording.trace.traced]
    if not results or not run.recordings:
        verdicts.append(Verdict.BLIND)
    return min(verdicts, key=lambda verdict: verdict.rank, default=Verdict.LOSSLESS)
