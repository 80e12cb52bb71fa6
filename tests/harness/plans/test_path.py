from __future__ import annotations

import pytest

from harness.oracle.abstain import abstains
from harness.plans.build import build_plan
from harness.plans.path import SLICES
from harness.plans.seed import seed_requests
from harness.plans.starts import DEVICE, MAIN, OTHER_KINDS
from harness.records.plan import Plan, Start, Tier
from tests.harness.checks.families import findings, run_of
from tests.harness.checks.ideal import Fault, fixture

SEED_MUTANTS = [
    ("engaged-exactly", Fault.NO_GREEDY_GATE),
    ("abstained", Fault.NO_GREEDY_GATE),
    ("drafts-made", Fault.NOTHING_DRAFTED),
    ("drafts-made", Fault.NEVER_PROPOSES),
    ("exact-counts", Fault.NOTHING_DRAFTED),
    ("exact-counts", Fault.STALE_STREAM),
    ("exact-counts", Fault.CONSUME_LAST),
    ("exact-counts", Fault.CONSTANT_DRAFTED),
    ("exact-counts", Fault.DRAFTED_IS_WIDTH),
    ("exact-counts", Fault.CAPPED_LOW),
    ("exact-drafts", Fault.STALE_STREAM),
    ("exact-drafts", Fault.EARLIEST),
    ("exact-drafts", Fault.SHORT_FIRST),
    ("exact-drafts", Fault.REJECTED_INDEXED),
    ("accounting", Fault.CONSUME_LAST),
    ("hit-miss-decoy", Fault.FIRST_UNSEEN),
]


def plan_of(check_id: str, tier: Tier) -> Plan:
    return build_plan(fixture(), tier, SLICES, [check_id])


@pytest.mark.parametrize(("check_id", "fault"), SEED_MUTANTS, ids=lambda value: getattr(value, "name", value))
@pytest.mark.parametrize("tier", [Tier.MUTATION, Tier.GATE])
def test_each_seed_mutant_fails_its_check_on_the_slice_of_each_tier(check_id: str, fault: Fault, tier: Tier) -> None:
    assert findings(check_id, run_of(check_id, fault, tier=tier))


@pytest.mark.parametrize("check_id", list(SLICES))
def test_a_mutation_slice_is_asked_of_shared_starts_in_few_requests(check_id: str) -> None:
    plan = plan_of(check_id, Tier.MUTATION)
    dumping = {"dump/plain", "dump/lookup"} if check_id == "abstained" else set()  # one reason is the server's, not a request's
    kinds = {"mixed2/draft", "flip2/draft", "window1/draft"} if check_id == "exact-drafts" else set()
    assert {start.id for start in plan.starts} <= {"plain", "lookup", "draft"} | dumping | kinds
    assert sum(len(start.requests) for start in plan.starts) <= (27 if kinds else 22)


@pytest.mark.parametrize("check_id", list(SLICES))
def test_a_gate_slice_holds_the_mutation_slice_and_the_deep_one_the_gate_slice(check_id: str) -> None:
    asked = [
        {(start.id, request.id) for start in plan_of(check_id, tier).starts for request in start.requests}
        for tier in (Tier.MUTATION, Tier.GATE, Tier.DEEP)
    ]
    assert asked[0] <= asked[1] <= asked[2]


def _compared_with(start: Start) -> list[str]:
    return [name for name in (start.reference, start.drafts_as) if name is not None]


@pytest.mark.parametrize("check_id", list(SLICES))
@pytest.mark.parametrize("tier", list(Tier))
def test_every_request_of_a_slice_is_tagged_with_its_check_and_asked_of_what_it_is_compared_with(
    check_id: str, tier: Tier
) -> None:
    plan = plan_of(check_id, tier)
    assert all(check_id in request.checks for start in plan.starts for request in start.requests)
    for start in plan.starts:
        asked = {request.id for request in start.requests}
        assert all(asked <= {one.id for one in plan.start(name).requests} for name in _compared_with(start))


def test_exactly_15_of_the_16_seed_requests_may_speculate() -> None:
    seeds = seed_requests(fixture())
    assert (len(seeds), [abstains(request) for request in seeds].count(None)) == (16, 15)


def test_the_gate_of_engaged_exactly_holds_the_whole_seed_plan_on_each_arm() -> None:
    plan = plan_of("engaged-exactly", Tier.GATE)
    seeds = {request.id for request in seed_requests(fixture())}
    for start in (*MAIN, *DEVICE):
        assert {request.id for request in plan.start(start.id).requests if "seed" in request.roles} == seeds


def test_packs_of_other_kinds_are_asked_in_both_directions_in_the_gate() -> None:
    plan = plan_of("engaged-exactly", Tier.GATE)
    for start in OTHER_KINDS:
        assert {request.is_greedy for request in plan.start(start.id).requests} == {True, False}


def test_the_identity_twin_is_compared_with_its_original_on_every_request_of_exact_drafts() -> None:
    plan = plan_of("exact-drafts", Tier.GATE)
    (twin,) = [start for start in plan.starts if start.drafts_as is not None]
    assert (twin.pack, twin.drafts_as, plan.start("draft").pack) == ("twin2", "draft", "mixed")
    assert {request.id for request in twin.requests} <= {request.id for request in plan.start("draft").requests}


def test_each_kind_of_pack_has_an_arm_of_its_own() -> None:
    starts = [start for start in plan_of("exact-drafts", Tier.DEEP).starts if start.pack and not start.arm.startswith("npu")]
    arms = {start.pack: start.arm for start in starts}
    assert {arms[pack] for pack in ("mixed2", "flip2", "twin2")} == {"draft-2"}
    assert {arms[pack] for pack in ("mixed", "always", "never", "five:deep")} == {"draft"}
    assert arms["window1"] == "draft-sliding"


def test_the_gate_of_exact_counts_walks_every_stream_and_every_role_at_several_budgets() -> None:
    requests = plan_of("exact-counts", Tier.GATE).start("lookup").requests
    whole = {request.id for request in requests if request.max_tokens == 24}
    assert {f"{stream.name}/24" for stream in fixture().streams} <= whole
    for name in ("hit-1", "hit-2", "repeat-1", "burst-1"):
        budgets = {request.max_tokens for request in requests if request.id.startswith(f"{name}/")}
        assert budgets >= {2, 3, 5, 6, 11, 24}
