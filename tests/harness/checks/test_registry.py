from __future__ import annotations

import pytest

from harness.checks.check import Check
from harness.checks.registry import ALL_CHECKS
from harness.plans.registry import SLICES
from harness.records.finding import Verdict

CONTROLS = ("control-repeat", "control-tracer", "control-counts", "control-canary")
LAWS = {
    "same-reply": Verdict.MISMATCH,
    "same-sampled-reply": Verdict.MISMATCH,
    "oracle-reply": Verdict.MISMATCH,
    "budget-prefix": Verdict.MISMATCH,
    "stop-cut": Verdict.MISMATCH,
    "end-token": Verdict.MISMATCH,
    "context-end": Verdict.MISMATCH,
    "stream-join": Verdict.MISMATCH,
    "drafter-independence": Verdict.MISMATCH,
    "engaged-exactly": Verdict.NOT_ENGAGED,
    "abstained": Verdict.WRONG_PATH,
    "drafts-made": Verdict.NOT_ENGAGED,
    "exact-counts": Verdict.WRONG_PATH,
    "exact-drafts": Verdict.WRONG_PATH,
    "accounting": Verdict.WRONG_PATH,
    "hit-miss-decoy": Verdict.NOT_ENGAGED,
    "accept-lengths": Verdict.BLIND,
    "fallback-round": Verdict.WRONG_PATH,
    "request-order": Verdict.MISMATCH,
    "prefix-cache": Verdict.MISMATCH,
    "cancel-frees": Verdict.MISMATCH,
    "concurrent-neighbours": Verdict.MISMATCH,
    "refusals": Verdict.MISMATCH,
    "logprobs-target": Verdict.MISMATCH,
    "grammar-valid": Verdict.MISMATCH,
    "device-opens": Verdict.DEVICE,
    "device-passes": Verdict.DEVICE,
    "capabilities": Verdict.IGNORED,
    "sampled-distribution": Verdict.MISMATCH,
    "near-ties": Verdict.MISMATCH,
    "known-faults": Verdict.KNOWN_GONE,
}


def test_the_checks_are_the_controls_and_then_every_law_in_its_place() -> None:
    assert tuple(check.id for check in ALL_CHECKS) == (*CONTROLS, *LAWS)


def test_checks_and_slices_name_exactly_the_same_ids() -> None:
    assert sorted(SLICES) == sorted(check.id for check in ALL_CHECKS)


@pytest.mark.parametrize("check", ALL_CHECKS, ids=lambda check: check.id)
def test_a_check_has_the_verdict_of_its_law_and_says_the_law_in_one_sentence(check: Check) -> None:
    controls = dict.fromkeys(CONTROLS, Verdict.BLIND) | {"control-repeat": Verdict.INCONCLUSIVE}
    assert check.verdict is (controls | LAWS)[check.id]
    assert check.law.endswith(".")
    assert check.law.count(". ") == 0


def test_what_reads_the_tracer_alone_is_not_tested_without_it() -> None:
    assert {check.id for check in ALL_CHECKS if check.needs_trace} == {"control-tracer", "device-opens", "device-passes"}
