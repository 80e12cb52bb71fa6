"""Where a token was committed: every way in which the rounds can lie along the reply, against a walk that knows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checks.spots import spots_of
from harness.oracle.lookup import trace
from harness.oracle.loop import Rules, Said
from harness.records.divergence import Spot
from harness.records.recording import Round

IDS = (5, 6, 7, 8, 9)


@pytest.mark.parametrize(
    ("rounds", "num_plain", "index", "want"),
    [
        ((Round((6, 7), 2),), 1, 0, {Spot(0, 0)}),  # the plain step lies behind: nothing but 6 7 can be accepted
        ((Round((6, 7), 2),), 1, 2, {Spot(0, 2)}),
        ((Round((6, 7), 2),), 1, 4, {Spot(None)}),
        ((Round((0,), 0),), 3, 2, {Spot(0, 0), Spot(None)}),  # a round that lands nothing may be anywhere
        ((Round((0,), 0), Round((8,), 1)), 1, 2, {Spot(1, 0)}),
        ((Round((0,), 0), Round((8,), 1)), 1, 1, {Spot(0, 0), Spot(None)}),
        ((), 5, 3, {Spot(None)}),
        ((Round((6, 7), 2),), None, 1, {Spot(0, 1)}),
    ],
    ids=["t1", "second-draft", "behind", "anywhere", "between", "before", "no-rounds", "plain-not-told"],
)
def test_a_token_is_found_in_the_round_that_must_have_committed_it(
    rounds: tuple[Round, ...], num_plain: int | None, index: int, want: set[Spot]
) -> None:
    assert spots_of(IDS, rounds, num_plain, index) == want


@pytest.mark.parametrize(
    ("rounds", "num_plain"),
    [
        ((Round((1, 2), 2),), 2),  # what it says it accepted is nowhere in the reply
        ((Round((6,), 2),), 2),  # it accepted more than it drafted
        ((Round((6, 7), 2),), 4),  # more passes than tokens
        ((Round((8,), 1), Round((6,), 1)), 1),  # in the other order
    ],
    ids=["foreign-drafts", "more-than-drafted", "too-many-passes", "wrong-order"],
)
def test_rounds_that_do_not_fit_the_reply_place_nothing(rounds: tuple[Round, ...], num_plain: int) -> None:
    assert spots_of(IDS, rounds, num_plain, 2) == set()


@settings(max_examples=60, deadline=None)
@given(ids=st.lists(st.integers(0, 2), min_size=4, max_size=18), num_prompt=st.integers(1, 3), k=st.integers(1, 4))
def test_the_spot_of_a_walk_that_is_known_is_always_among_those_found(ids: list[int], num_prompt: int, k: int) -> None:
    prompt, reply = tuple(ids[:num_prompt]), tuple(ids[num_prompt:])
    walk = trace(prompt, Said(reply, len(reply)), Rules(k=k))
    rounds = tuple(Round(step.drafts, step.accepted) for step in walk.rounds)
    for index in range(len(reply)):
        covering = [
            Spot(number, index - step.index)
            for number, step in enumerate(walk.rounds)
            if step.index <= index <= step.index + step.accepted
        ]
        assert (covering or [Spot(None)])[0] in spots_of(reply, rounds, walk.num_plain, index)
