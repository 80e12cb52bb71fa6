"""The gate as tests: one for each check and arm, and one for the verdict of the run."""

from __future__ import annotations

import pytest

from harness.records.finding import Judgement, Verdict
from harness.records.recording import Run
from harness.report.text import findings_text


def test_check(check_id: str, arm: str, outcome: tuple[Run, Judgement], tested_arms: dict[str, set[str]]) -> None:
    """A check holds on an arm; a finding that belongs to no tested arm (a reference, the run itself) fails it on every arm."""
    run, judgement = outcome
    if check_id in judgement.not_tested:
        pytest.skip(f"not tested: {judgement.not_tested[check_id]} (the verdict test fails for it)")
    arms = {start.id: start.arm for start in run.plan.starts}
    (result,) = [result for result in judgement.results if result.check == check_id]
    elsewhere = tested_arms[check_id] - {arm}
    findings = [finding for finding in result.findings if arms.get(finding.start) not in elsewhere]
    counted = [finding for finding in findings if not finding.known]
    if counted:
        pytest.fail(findings_text(counted), pytrace=False)
    if findings:
        pytest.xfail(f"known faults: {', '.join(dict.fromkeys(finding.known for finding in findings))}")


def test_verdict(outcome: tuple[Run, Judgement]) -> None:
    """The run is lossless, every check of the plan was executed, and every request of the plan was asked."""
    run, judgement = outcome
    assert [result.check for result in judgement.results if not result.examined] == []
    assert set(run.plan.checks) - {result.check for result in judgement.results} - set(judgement.not_tested) == set()
    num_asked = sum(len(recording.answers) for recording in run.recordings)
    assert num_asked == sum(len(start.requests) for start in run.plan.starts) > 0
    assert judgement.verdict is Verdict.LOSSLESS, "\n".join(recording.failure for recording in run.recordings)
