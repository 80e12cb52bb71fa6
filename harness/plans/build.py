"""Merge the slices of the wanted checks into one plan. Knows no check by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from harness.errors import UsageError
from harness.records.fixture import Fixture
from harness.records.plan import Plan, Request, Start, Tier


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to one start. `start` carries no requests of its own; equal ids mean the same process."""

    start: Start
    request: Request


Slice = Callable[[Fixture, Tier], Iterable[Asked]]


def ask(request: Request, *starts: Start) -> list[Asked]:
    """Return the same request for several starts."""
    return [Asked(start, request) for start in starts]


def build_plan(fixture: Fixture, tier: Tier, slices: Mapping[str, Slice], wanted: Collection[str]) -> Plan:
    """Merge the slices of the wanted checks, in the order of `slices`.

    Requests of one id share one answer and carry the checks and roles of all that ask them. Raises UsageError for a wanted check
    that no slice belongs to, or when nothing would be asked.
    """
    unknown = sorted(set(wanted) - set(slices))
    if unknown:
        raise UsageError(f"plan: no check is called {', '.join(unknown)}; use of {', '.join(slices)}")
    starts: dict[str, Start] = {}
    requests: dict[str, dict[str, Request]] = {}
    for check, slice_of in slices.items():
        if check not in wanted:
            continue
        for asked in slice_of(fixture, tier):
            _merge(starts, requests, asked)
    merged = tuple(
        msgspec.structs.replace(start, requests=tuple(requests[start_id].values())) for start_id, start in starts.items()
    )
    if not merged:
        raise UsageError(f"plan: tier {tier.value} asks nothing for {', '.join(sorted(wanted)) or 'no check'}")
    plan = Plan(tier=tier, recipe=fixture.recipe, starts=merged, checks=tuple(c for c in slices if c in wanted))
    _assert_references(plan)
    return plan


def _merge(starts: dict[str, Start], requests: dict[str, dict[str, Request]], asked: Asked) -> None:
    start, request = asked.start, asked.request
    known = starts.setdefault(start.id, start)
    assert known == start, f"two starts are called {start.id}"
    asked_before = requests.setdefault(start.id, {})
    former = asked_before.get(request.id)
    if former is None:
        asked_before[request.id] = request
        return
    same = msgspec.structs.replace(request, checks=former.checks, role=former.role)
    assert same == former, f"two requests are called {request.id}"
    asked_before[request.id] = msgspec.structs.replace(
        former,
        checks=tuple(dict.fromkeys((*former.checks, *request.checks))),
        role=" ".join(dict.fromkeys((*former.roles, *request.roles))),
    )


def _assert_references(plan: Plan) -> None:
    by_id = {start.id: start for start in plan.starts}
    for start in plan.starts:
        for name in (start.reference, start.drafts_as):
            assert name is None or name in by_id, f"{start.id} is compared with {name}, which is not started"
