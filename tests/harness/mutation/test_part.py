"""A smaller plan's clean run out of a larger one's: what it holds, what it is refused for, and what still wants a run of its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from harness.mutation.part import part_of, part_of_nodes
from harness.records.plan import Plan, Start, Tier
from harness.records.recording import Run
from tests.harness.mutation import toy
from tests.harness.mutation.toy import LOOKUP, PLAIN, ToyArena, request


def asked(start: Start, *numbers: int, check: str = "same-reply") -> Start:
    return msgspec.structs.replace(start, requests=tuple(request(number, check) for number in numbers))


def plan(*starts: Start) -> Plan:
    return Plan(tier=Tier.MUTATION, recipe="toy@0", starts=starts, checks=("same-reply",))


@pytest.fixture
def whole(tmp_path: Path) -> Run:
    """Three numbers asked of both arms."""
    larger = plan(asked(PLAIN, 3, 4, 5), asked(LOOKUP, 3, 4, 5, check="exact-counts"))
    run = toy.workshop(tmp_path).record_clean(larger, ToyArena()).run
    assert run is not None
    return run


def test_a_part_holds_the_answers_to_its_own_requests_in_its_own_order_and_its_own_plan(whole: Run) -> None:
    smaller = plan(asked(PLAIN, 5, 3))
    part = part_of(whole, smaller)
    assert part is not None
    assert part.plan == smaller
    (recording,) = part.recordings
    assert recording.start == smaller.starts[0]
    assert [answer.request_id for answer in recording.answers] == ["n=5", "n=3"]


def test_who_reads_an_answer_is_no_part_of_what_was_asked(whole: Run) -> None:
    assert part_of(whole, plan(asked(LOOKUP, 4))) is not None


def test_a_part_costs_its_share_of_the_tokens_that_were_asked_for(whole: Run) -> None:
    part = part_of(whole, plan(asked(PLAIN, 3)))
    assert part is not None
    tokens = [sum(each.max_tokens for each in run.recordings[0].start.requests) for run in (part, whole)]
    assert part.recordings[0].cpu_seconds == whole.recordings[0].cpu_seconds * tokens[0] / max(tokens[1], 1)


@pytest.mark.parametrize(
    "smaller",
    [
        plan(asked(PLAIN, 3, 6)),
        plan(asked(msgspec.structs.replace(PLAIN, parameters={"k": 2}), 3)),
        plan(asked(msgspec.structs.replace(PLAIN, id="other"), 3)),
        plan(msgspec.structs.replace(PLAIN, requests=(msgspec.structs.replace(request(3, "same-reply"), body={"n": 8}),))),
    ],
    ids=["a request more", "other parameters", "another start", "the same name, another body"],
)
def test_what_was_not_asked_has_no_part(whole: Run, smaller: Plan) -> None:
    assert part_of(whole, smaller) is None


def test_a_plan_whose_part_is_clean_is_not_recorded_again(tmp_path: Path) -> None:
    workshop, arena = toy.workshop(tmp_path), ToyArena()
    workshop.keep(workshop.record_clean(plan(asked(PLAIN, 3, 4), asked(LOOKUP, 3, 4)), arena))
    assert workshop.clean_plan(plan(asked(PLAIN, 3), asked(LOOKUP, 3)), arena).problems == ()
    assert len(arena.plans) == 1


def test_a_plan_whose_part_would_find_something_is_recorded(tmp_path: Path) -> None:
    workshop, arena = toy.workshop(tmp_path), ToyArena()
    clean = workshop.record_clean(plan(asked(PLAIN, 3, 4), asked(LOOKUP, 3, 4)), arena)
    assert clean.run is not None
    plain, lookup = clean.run.recordings
    reply = lookup.answers[0].reply
    assert reply is not None
    odd = msgspec.structs.replace(lookup.answers[0], reply=msgspec.structs.replace(reply, text="odd"))
    lookup = msgspec.structs.replace(lookup, answers=(odd, *lookup.answers[1:]))
    run = msgspec.structs.replace(clean.run, recordings=(plain, lookup))
    workshop.keep(dataclasses.replace(clean, run=run))
    smaller = plan(asked(PLAIN, 3), asked(LOOKUP, 3))
    assert workshop.clean_plan(smaller, arena).unexpected == ()
    assert arena.plans[1:] == [smaller]


def test_a_part_of_test_nodes_sorts_them_as_the_larger_run_did_and_keeps_its_seconds() -> None:
    larger = toy.node_run(failed=["t::a"], passed=["t::b", "t::c"], broken=["t::d"])
    part = part_of_nodes(larger, ["t::c", "t::a"])
    assert part == toy.node_run(failed=["t::a"], passed=["t::c"])
    assert part_of_nodes(larger, ["t::c", "t::e"]) is None
