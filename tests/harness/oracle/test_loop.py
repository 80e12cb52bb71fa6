from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.oracle.loop import Asked, Head, Proposal, Rules, Said, Step, Trace, walk, walked

REPLY = (1, 2, 3, 4, 5, 6, 7, 8)
SAID = Said(REPLY, budget=8)


def head_of(*answers: Proposal) -> Head:
    """A head that gives these answers in turn, and then the last one for ever."""
    waiting = list(answers)
    return lambda _asked: waiting.pop(0) if len(waiting) > 1 else waiting[0]


def knowing(num_right: int, *, length: int = 4) -> Head:
    """A head whose first `num_right` drafts are what comes."""

    def head(asked: Asked) -> Proposal:
        coming = (*REPLY, *range(90, 99))[asked.num_emitted : asked.num_emitted + length]
        return Proposal(tuple(token if at < num_right else 99 for at, token in enumerate(coming)), is_paid=True)

    return head


def test_rounds_that_land_everything_take_k_plus_1_tokens_each() -> None:
    got = walked(SAID, Rules(k=3), knowing(4))
    assert got.steps == (Step(0, True, (2, 3, 4), 3), Step(4, True, (6, 7, 8), 3))
    assert (got.last, got.num_accepted, got.num_plain) == (0, 6, 0)


def test_a_proposal_of_a_whole_block_is_cut_to_the_room() -> None:
    turns = walk(Said(REPLY[:3], budget=3), Rules(k=7))
    assert next(turns) == Asked(num_emitted=1, room=2)
    with pytest.raises(StopIteration) as end:
        turns.send(Proposal((2, 3, 4, 5, 6, 7, 8)))
    assert end.value.value == Trace((Step(0, True, (2, 3), 2),), 0, None)


def test_attempts_that_were_paid_for_in_silence_are_recorded_as_1_and_throw_at_the_window() -> None:
    got = walked(SAID, Rules(k=3, fallback_below=1.5, fallback_window=3), head_of(Proposal(is_paid=True)))
    assert (got.fallback, got.num_plain, [step.asked for step in got.steps]) == (3, 7, [True] * 3 + [False] * 4)


def test_silence_that_cost_nothing_is_not_recorded() -> None:
    got = walked(SAID, Rules(k=3, fallback_below=9, fallback_window=1), head_of(Proposal()))
    assert (got.fallback, got.num_plain, got.was_asked) == (None, 7, True)


def test_the_round_that_ends_the_reply_is_not_recorded() -> None:
    got = walked(Said(REPLY[:4], budget=4), Rules(k=3, fallback_below=9, fallback_window=1), knowing(4))
    assert (got.fallback, got.steps) == (None, (Step(0, True, (2, 3, 4), 3),))


def test_a_round_before_the_end_is_recorded_with_take_plus_1() -> None:
    at_the_bar = walked(SAID, Rules(k=3, fallback_below=3, fallback_window=1), knowing(2))
    under_it = walked(SAID, Rules(k=3, fallback_below=3.5, fallback_window=1), knowing(2))
    assert (at_the_bar.fallback, under_it.fallback) == (None, 1)
    assert len(under_it.rounds) == 1


def test_a_draft_that_is_the_end_token_ends_the_reply_and_counts_nowhere() -> None:
    got = walked(Said((1, 2), budget=8, end_token=9), Rules(k=3), head_of(Proposal((2, 9, 4))))
    assert got == Trace((Step(0, True, (2, 9, 4), 1),), 0, None)


def test_nothing_is_asked_where_the_first_token_ends_the_reply() -> None:
    assert walked(Said((1,), budget=8, stopped=True), Rules(k=3), knowing(4)) == Trace((), 1, None)
    assert walked(Said((), budget=8, end_token=9), Rules(k=3), knowing(4)) == Trace((), 0, None)


def test_a_width_of_4_leaves_room_for_3_drafts() -> None:
    assert next(walk(SAID, Rules(k=7, width=4))) == Asked(num_emitted=1, room=3)


@settings(max_examples=80, deadline=None)
@given(
    size=st.integers(0, 8),
    end=st.booleans(),
    stopped=st.booleans(),
    k=st.integers(0, 9),
    right=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    below=st.sampled_from([0, 1.5, 3]),
)
def test_every_counted_token_is_run_once_but_the_last(
    size: int, end: bool, stopped: bool, k: int, right: list[int], below: float
) -> None:
    stopped = stopped and not end and size > 0
    said = Said(REPLY[:size], budget=8 if end or stopped else size, end_token=50 if end else None, stopped=stopped)
    lands = iter(right * 9)

    def head(asked: Asked) -> Proposal:
        return knowing(next(lands))(asked)

    got = walked(said, Rules(k=k, fallback_below=below), head)
    assert len(got.rounds) + got.num_plain + got.num_accepted + got.last == size
    assert sum(step.accepted + 1 for step in got.steps) + got.last == size
