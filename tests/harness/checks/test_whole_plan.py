"""The whole gate plan, answered by the ideal engine and judged by every check."""

from __future__ import annotations

import functools

import msgspec
import pytest

from harness.checks import counts, devices, fallback, path
from harness.checks.judge import judge
from harness.checks.registry import ALL_CHECKS
from harness.plans.build import build_plan
from harness.plans.registry import SLICES
from harness.records.finding import Judgement, Verdict
from harness.records.plan import Plan, Tier
from harness.records.recording import Answer, Recording, Trace
from tests.harness.checks.ideal import DECLARED, DECOYS, Fault, fixture, seen_of, trace_of
from tests.harness.checks.replying import answered

KILLERS = {
    Fault.NO_GREEDY_GATE: {"abstained", "engaged-exactly"},
    Fault.NOTHING_DRAFTED: {"drafts-made", "exact-counts"},
    Fault.NEVER_PROPOSES: {"drafts-made"},
    Fault.STALE_STREAM: {"exact-counts", "exact-drafts"},
    Fault.OFF_IGNORED: {"fallback-round"},
    Fault.NO_RECORD: {"fallback-round"},
    Fault.RECORD_TAKE: {"fallback-round"},
    Fault.WINDOW_IGNORED: {"fallback-round"},
    Fault.CONSUME_LAST: {"exact-counts", "accounting"},
    Fault.CONSTANT_DRAFTED: {"exact-counts"},
    Fault.DRAFTED_IS_WIDTH: {"exact-counts"},
    Fault.EARLIEST: {"exact-drafts"},
    Fault.SHORT_FIRST: {"exact-drafts"},
    Fault.REJECTED_INDEXED: {"exact-drafts"},
    Fault.FIRST_UNSEEN: {"same-reply", "hit-miss-decoy"},
    Fault.CAPPED_LOW: {"accept-lengths", "exact-counts"},
}


@functools.cache
def plan() -> Plan:
    return build_plan(fixture(), Tier.GATE, SLICES, tuple(SLICES))


@functools.cache
def judged(*faults: Fault) -> Judgement:
    run = answered(plan(), *faults)
    control = Trace(traced=True, events=tuple(map(seen_of, DECOYS)), num_opens=9)
    recordings = tuple(map(_traced, run.recordings))
    return judge(msgspec.structs.replace(run, recordings=recordings, tracer_control=control, decoys=DECOYS), ALL_CHECKS)


def _traced(recording: Recording) -> Recording:
    start, answers = recording.start, tuple(map(_with_both_counts, recording.answers))
    device = DECLARED.arms[start.arm].device if start.arm in DECLARED.arms else ""
    return msgspec.structs.replace(recording, trace=trace_of(start, answers), device=device, answers=answers)


def _with_both_counts(answer: Answer) -> Answer:
    return answer if answer.usage_counts else msgspec.structs.replace(answer, usage_counts=answer.counts)


def test_a_right_engine_is_lossless_and_every_check_looked_at_something() -> None:
    got = judged()
    assert (got.verdict, got.findings) == (Verdict.LOSSLESS, ())
    assert set(got.not_tested) == {
        "capabilities",
        "sampled-distribution",
        "near-ties",
        "known-faults",
    }  # nothing is declared of it
    assert [result.check for result in got.results if not result.examined] == []


@pytest.mark.parametrize("fault", KILLERS, ids=lambda fault: fault.name)
def test_a_fault_fails_every_check_that_is_named_as_its_killer(fault: Fault) -> None:
    failed = {finding.check for finding in judged(fault).findings}
    assert failed >= KILLERS[fault]


@pytest.mark.parametrize("fault", KILLERS, ids=lambda fault: fault.name)
def test_a_fault_of_the_path_never_looks_like_a_plan_that_asks_too_little(fault: Fault) -> None:
    laws = {check.id for family in (path, counts, fallback, devices) for check in family.CHECKS}
    assert [one for one in judged(fault).findings if one.check in laws and one.verdict is Verdict.BLIND] == []
