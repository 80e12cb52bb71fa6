"""A shuffled plan: everything is asked once, what a law on order reads keeps its order, and a seed gives the same plan again."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import gate
from harness.checks.judge import judge
from harness.checks.registry import ALL_CHECKS
from harness.plans.build import build_plan
from harness.plans.registry import SLICES
from harness.plans.requests import completion
from harness.plans.shuffle import FRESH, shuffled, with_fresh_cases
from harness.plans.starts import LOOKUP
from harness.records.finding import Verdict
from harness.records.fixture import Stream
from harness.records.plan import Plan, Request, Tier
from harness.subjects.description import load_description
from tests.harness.checks.ideal import fixture
from tests.harness.checks.replying import CHECKS as REPLYING
from tests.harness.checks.replying import SLICES as REPLYING_SLICES
from tests.harness.checks.replying import answered

ORDERED = [check.id for check in ALL_CHECKS if check.reads_order]
STREAM = Stream("s", "main", (1, 2), ())


def gate_plan() -> Plan:
    return build_plan(fixture(), Tier.GATE, SLICES, tuple(SLICES))


def a_plan(*words: str) -> Plan:
    """A plan of one start; a word is a free request, one of a law on order ("o..."), or one of a group ("g...")."""
    requests = []
    for number, word in enumerate(words):
        check = "request-order" if word.startswith("o") else "same-reply"
        request = completion(STREAM, 1 + number, check, label=word)
        requests.append(msgspec.structs.replace(request, id=word, group="g" if word.startswith("g") else ""))
    return Plan(Tier.GATE, "tiny@test", (msgspec.structs.replace(LOOKUP, requests=tuple(requests)),), ("same-reply",))


def ids(requests: tuple[Request, ...]) -> list[str]:
    return [request.id for request in requests]


@settings(max_examples=60, deadline=None)
@given(words=st.lists(st.sampled_from("fog"), max_size=14), seed=st.integers(0, 1 << 40))
def test_every_request_is_asked_once_and_what_is_ordered_keeps_its_order_and_its_neighbours(words: list[str], seed: int) -> None:
    names = [f"{word}{number}" for number, word in enumerate(words)]
    got = ids(shuffled(a_plan(*names), seed, ORDERED, ()).starts[0].requests)
    assert sorted(got) == sorted(names)
    kept = [name for name in names if name[0] in "og"]
    assert [name for name in got if name[0] in "og"] == kept
    for left, right in pairwise(names):
        if left[0] in "og" and right[0] in "og":
            assert got.index(right) == got.index(left) + 1


def test_a_seed_gives_one_order_and_another_seed_another_and_the_plan_says_which() -> None:
    plan = a_plan(*(f"f{number}" for number in range(12)))
    one, again, other = (shuffled(plan, seed, ORDERED, ()) for seed in (1, 1, 2))
    assert one == again
    assert ids(one.starts[0].requests) != ids(other.starts[0].requests) != ids(plan.starts[0].requests)
    assert (one.shuffle, other.shuffle, plan.shuffle) == (1, 2, None)


def test_a_start_that_must_stay_as_it_is_does() -> None:
    plan = a_plan(*(f"f{number}" for number in range(12)))
    assert shuffled(plan, 1, ORDERED, ["lookup"]).starts == plan.starts


def test_in_the_gate_starts_with_memory_or_a_failing_pass_stay_and_the_main_arms_do_not() -> None:
    plan, description = gate_plan(), load_description("forward-serve")
    got = gate._shuffled(plan, description, 5)
    changed = {new.id for new, old in zip(got.starts, plan.starts, strict=True) if new.requests != old.requests}
    assert {"plain", "lookup", "draft", "npu/draft"} <= changed
    assert not {start.id for start in plan.starts if start.id.startswith(("order", "cached", "context"))} & changed


def test_fresh_cases_are_asked_of_the_main_arms_by_their_seed_and_only_for_checks_of_the_plan() -> None:
    plan = gate_plan()
    one, other = (with_fresh_cases(plan, fixture(), seed) for seed in (1, 2))
    fresh = [request for request in one.start("lookup").requests if request.id.endswith(f"/{FRESH}")]
    assert len(fresh) == 20
    assert fresh == [request for request in one.start("plain").requests if request.id.endswith(f"/{FRESH}")]
    assert {request.checks for request in fresh} == {("same-reply",), ("same-sampled-reply",)}
    assert sum(not request.is_greedy for request in fresh) == 8
    assert {request.id for request in fresh} != {
        request.id for request in other.start("lookup").requests if request.id.endswith(f"/{FRESH}")
    }
    assert len({request.id for request in one.start("lookup").requests}) == len(one.start("lookup").requests)
    few = build_plan(fixture(), Tier.GATE, SLICES, ["exact-counts"])
    assert with_fresh_cases(few, fixture(), 1) == few


def test_fresh_cases_sampled_ones_too_are_left_of_a_plan_that_is_fitted_to_the_engine() -> None:
    got = gate.plan_of(gate.GateOptions(shuffle=3), fixture())
    fresh = [request for request in got.start("draft").requests if request.id.endswith(f"/{FRESH}")]
    assert (len(fresh), sum(not request.is_greedy for request in fresh), got.shuffle) == (20, 8, 3)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_right_engine_has_no_finding_on_a_shuffled_plan_with_fresh_cases(seed: int) -> None:
    wanted = ("same-reply", "same-sampled-reply", "budget-prefix", "cancel-frees", "concurrent-neighbours", "refusals")
    plan = build_plan(fixture(), Tier.GATE, REPLYING_SLICES, wanted)
    plan = shuffled(with_fresh_cases(plan, fixture(), seed), seed, ORDERED, ())
    judgement = judge(answered(plan), REPLYING)
    assert [one for one in judgement.findings if one.verdict is not Verdict.NOT_TRACED] == []
