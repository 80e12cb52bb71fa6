"""How the checks of a plan are applied, and those that judge what the others found."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from harness.checks.check import Check, Ledger
from harness.checks.evidence import Evidence
from harness.checks.judge import judge
from harness.records.finding import CheckResult, Verdict
from harness.records.recording import Run
from tests.harness.checks.replying import run_of


def a_run(*checks: str) -> Run:
    """A run whose plan names these checks."""
    run = run_of("same-reply")
    return msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, checks=checks))


def nothing(_evidence: Evidence, _ledger: Ledger) -> None:
    """Look at nothing."""


def looks(evidence: Evidence, ledger: Ledger) -> None:
    """Look at each start, and find no fault."""
    for start in evidence.run.plan.starts:
        ledger.examine(start.id)


def test_a_check_that_judges_the_others_comes_after_them_and_reads_the_run_and_their_results() -> None:
    read = []

    def after(evidence: Evidence, results: Sequence[CheckResult], ledger: Ledger) -> None:
        read.append((evidence.run, [result.check for result in results]))
        ledger.fault_of_start("lookup", "it is gone")

    run = a_run("last", "first")
    got = judge(
        run, [Check("last", Verdict.KNOWN_GONE, "Last.", nothing, after=after), Check("first", Verdict.MISMATCH, "", looks)]
    )
    assert read == [(run, ["first"])]
    assert [result.check for result in got.results] == ["first", "last"]
    (finding,) = got.findings
    assert (finding.check, finding.verdict, finding.start, finding.message) == (
        "last",
        Verdict.KNOWN_GONE,
        "lookup",
        "it is gone",
    )
    assert finding.repeat == "draftproof run --subject ideal --check last"
    assert got.verdict is Verdict.KNOWN_GONE


def test_a_check_that_the_plan_does_not_name_is_not_applied() -> None:
    got = judge(a_run("first"), [Check(name, Verdict.MISMATCH, "", looks) for name in ("first", "other")])
    assert [result.check for result in got.results] == ["first"]


def test_a_plan_that_names_a_check_that_nobody_wrote_is_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError, match=r"nobody wrote: \['first', 'second'\]"):
        judge(a_run("second", "first"), [])
