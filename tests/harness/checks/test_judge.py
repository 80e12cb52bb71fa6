"""How the checks of a plan are applied, and those that judge what the others found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import msgspec
import pytest

from harness.checks.check import Check, Ledger
from harness.checks.evidence import Evidence
from harness.checks.judge import judge
from harness.records.finding import CheckResult, Verdict
from harness.records.need import Need
from harness.records.recording import Run, Trace
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


def test_a_check_that_examines_none_of_its_answers_is_blind_at_each_start_but_the_reference() -> None:
    (result,) = judge(a_run("same-reply"), [Check("same-reply", Verdict.MISMATCH, "", nothing)]).results
    got = [(one.verdict, one.start, one.message, one.want, one.got) for one in result.findings]
    assert got == [(Verdict.BLIND, start, "examined nothing", "2 answers", 0) for start in ("draft", "lookup")]
    assert {one.repeat for one in result.findings} == {"draftproof run --subject ideal --check same-reply"}


def test_a_check_that_needs_the_trace_is_not_tested_where_one_start_was_not_traced() -> None:
    run = a_run("first", "other")
    untraced = msgspec.structs.replace(run.recordings[-1], trace=Trace(traced=False))
    run = msgspec.structs.replace(run, recordings=(*run.recordings[:-1], untraced))
    got = judge(run, [Check("first", Verdict.MISMATCH, "", looks, needs_trace=True), Check("other", Verdict.MISMATCH, "", looks)])
    assert got.not_tested == {"first": "tracing was switched off"}
    assert [result.check for result in got.results] == ["other"]
    assert got.verdict is Verdict.NOT_TRACED


def test_a_check_is_not_tested_where_the_subject_lacks_one_of_its_needs_and_every_reason_is_told() -> None:
    run = a_run("first", "other")
    run = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, reports_rounds=False))
    untraced = [msgspec.structs.replace(one, trace=Trace(traced=False)) for one in run.recordings]
    both = Check("first", Verdict.MISMATCH, "", looks, needs_trace=True, needs=(Need.ROUNDS, Need.KNOWN_FAULTS))
    assert judge(
        msgspec.structs.replace(run, recordings=tuple(untraced)), [both, Check("other", Verdict.MISMATCH, "", looks)]
    ).not_tested == {"first": "tracing was switched off; it does not list its rounds; its description pins no fault"}
    needs = {"first": (Need.PATHS, Need.ROUNDS), "other": (Need.PATHS,)}
    got = judge(run, [Check(name, Verdict.MISMATCH, "", looks, needs=needs[name]) for name in needs])
    assert got.not_tested == {"first": "it does not list its rounds"}
    assert [result.check for result in got.results] == ["other"]


def test_a_run_in_which_nothing_was_found_is_lossless_and_one_that_was_not_judged_or_recorded_is_blind() -> None:
    run, checks = a_run("first"), [Check("first", Verdict.MISMATCH, "", looks)]
    assert judge(run, checks).verdict is Verdict.LOSSLESS
    assert judge(a_run(), checks).verdict is Verdict.BLIND
    assert judge(msgspec.structs.replace(run, recordings=()), checks).verdict is Verdict.BLIND


@pytest.mark.parametrize(("worse", "better"), list(itertools.pairwise(Verdict)))
def test_of_two_findings_the_worse_one_names_the_verdict(worse: Verdict, better: Verdict) -> None:
    def finds(verdict: Verdict) -> Callable[[Evidence, Ledger], None]:
        return lambda _evidence, ledger: ledger.fault_of_start("lookup", "wrong", verdict=verdict)

    for order in ((worse, better), (better, worse)):
        checks = [Check(name, Verdict.MISMATCH, "", finds(verdict)) for name, verdict in zip(("a", "b"), order, strict=True)]
        assert judge(a_run("a", "b"), checks).verdict is worse
