"""The families of path, counts, fallback, controls and devices, run against the ideal engine. For tests only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.checks import controls, counts, devices, fallback, path
from harness.checks.check import Check
from harness.checks.evidence import Evidence
from harness.checks.judge import apply
from harness.plans import controls as controls_plan
from harness.plans import devices as devices_plan
from harness.plans import fallback as fallback_plan
from harness.plans import path as path_plan
from harness.plans.build import build_plan
from harness.records.finding import CheckResult, Finding, Verdict
from harness.records.plan import Plan, Tier
from harness.records.recording import Run
from tests.harness.checks.ideal import Fault, all_streams, fixture
from tests.harness.checks.script import Script
from tests.harness.checks.serving import serve_plan

SLICES = {**path_plan.SLICES, **fallback_plan.SLICES, **controls_plan.SLICES, **devices_plan.SLICES}


def check_of(check_id: str) -> Check:
    """Return a check of these families."""
    families = (controls.CHECKS, path.CHECKS, counts.CHECKS, fallback.CHECKS, devices.CHECKS)
    (found,) = (check for family in families for check in family if check.id == check_id)
    return found


def plan_of(check_id: str, tier: Tier = Tier.MUTATION) -> Plan:
    """Return the plan that one check asks for."""
    return build_plan(fixture(), tier, SLICES, [check_id])


def run_of(check_id: str, *faults: Fault, tier: Tier = Tier.MUTATION, arms: Sequence[str] = ()) -> Run:
    """Return that plan answered by the ideal engine, with faults planted on some arms or on all."""
    return serve_plan(plan_of(check_id, tier), Script(all_streams()), faults, arms=arms)


def result(check_id: str, run: Run) -> CheckResult:
    """Judge a run by one check."""
    return apply(check_of(check_id), Evidence(run))


def findings(check_id: str, run: Run) -> tuple[Finding, ...]:
    """Return what one check finds, and hold every finding to name its check and how to repeat it."""
    found = result(check_id, run).findings
    assert all(one.check == check_id and f"--check {check_id}" in one.repeat for one in found)
    return found


def places(found: Iterable[Finding]) -> list[tuple[str, str]]:
    """Return (start, request) of each finding."""
    return [(one.start, one.request) for one in found]


def blind(found: Iterable[Finding]) -> list[str]:
    """Return the messages of findings that say that the check proves nothing."""
    return [one.message for one in found if one.verdict is Verdict.BLIND]
