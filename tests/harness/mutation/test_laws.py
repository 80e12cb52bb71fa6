"""Plans restricted to some arms: which starts stay, and what those that are only compared with are still asked."""

from __future__ import annotations

import msgspec

from harness.mutation.laws import restricted
from harness.records.plan import Plan, Start, Tier
from tests.harness.mutation.toy import request


def start(name: str, arm: str, *numbers: int, reference: str | None = None) -> Start:
    requests = tuple(request(number, "same-reply") for number in numbers)
    return Start(id=name, arm=arm, model="toy", requests=requests, reference=reference)


PLAIN = start("plain", "plain", 1, 2, 3, 9)
LOOKUP = start("lookup", "lookup", 1, 2, reference="plain")
DRAFT = start("draft", "draft", 2, 3, reference="plain")
DEVICE = start("device", "npu", 2, reference="draft")
PLAN = Plan(tier=Tier.MUTATION, recipe="toy@0", starts=(PLAIN, LOOKUP, DRAFT, DEVICE), checks=("same-reply",))


def asked(plan: Plan) -> dict[str, list[str]]:
    return {each.id: [request.id for request in each.requests] for each in plan.starts}


def test_no_arms_leave_the_plan_as_it_is() -> None:
    assert restricted(PLAN, ()) == PLAN


def test_a_reference_is_not_asked_what_only_a_dropped_start_is_compared_in() -> None:
    assert asked(restricted(PLAN, ["lookup"])) == {"plain": ["n=1", "n=2", "n=9"], "lookup": ["n=1", "n=2"]}


def test_a_reference_at_second_hand_stays_too() -> None:
    assert asked(restricted(PLAN, ["npu"])) == {"plain": ["n=2", "n=9"], "draft": ["n=2"], "device": ["n=2"]}


def test_a_start_of_a_wanted_arm_is_asked_everything_also_where_it_is_a_reference() -> None:
    assert asked(restricted(PLAN, ["plain", "draft"])) == {"plain": ["n=1", "n=2", "n=3", "n=9"], "draft": ["n=2", "n=3"]}


def test_starts_stay_in_the_order_of_the_plan() -> None:
    turned = msgspec.structs.replace(PLAN, starts=(LOOKUP, PLAIN))
    assert [each.id for each in restricted(turned, ["lookup"]).starts] == ["lookup", "plain"]
