"""Accept tables: what rounds they give, and which tokens write them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.fabricate.aim import FREE
from harness.fabricate.schedule import (
    accepted_lengths,
    all_right,
    deciding_slots,
    rounds_by_length,
    schedule_table,
    table_tokens,
    transitions,
    walk,
)

TABLES = st.tuples(st.integers(1, 4), st.integers(3, 24), st.integers(1, 7), st.integers(0, 1000))


def test_a_walk_accepts_what_the_table_and_the_round_allow() -> None:
    table = np.array([2, 9, 9, 1, 9, 5, 0])  # a reply of 8 tokens
    assert list(walk(table, 7)) == [(1, 2), (4, 1), (6, 2)]
    assert list(walk(table, 1)) == [(1, 1), (3, 1), (5, 1), (7, 0)]


@settings(max_examples=40, deadline=None)
@given(TABLES)
def test_drafts_made_from_a_table_are_accepted_as_the_table_says(sizes: tuple[int, int, int, int]) -> None:
    streams, reply_length, drafts, seed = sizes
    rng = np.random.default_rng(seed)
    replies = rng.integers(0, 90, (streams, reply_length))
    second = (replies + 1 + rng.integers(0, 89, replies.shape)) % 94
    table = schedule_table(streams, reply_length, drafts, seed)
    tokens = table_tokens(table, replies, second, drafts)
    assert table.min() >= 0
    assert np.all(table <= np.minimum(drafts, reply_length - np.arange(1, reply_length)))
    # a free slot may hold anything; the anchor of a slot that decides is never free
    filled = np.where(tokens == FREE, 93, tokens)
    np.testing.assert_array_equal(accepted_lengths(filled, replies), table)
    assert np.all(tokens[deciding_slots(table, drafts)] != FREE)


def test_the_slot_after_the_wrong_one_is_right_again_on_the_widest_path() -> None:
    replies = np.arange(8)[None]
    tokens = table_tokens(np.array([[1, 0, 0, 0, 0, 0, 0]]), replies, replies + 50, 4)
    assert tokens[0, 0].tolist() == [1, 52, 3, FREE]
    assert tokens[0, 1].tolist() == [52, FREE, FREE, FREE]  # no round of 4 starts here


@pytest.mark.parametrize(("k", "fewest"), [(7, 40), (4, 25)])
def test_the_tiny_schedule_covers_lengths_and_transitions(k: int, fewest: int) -> None:
    table = schedule_table(11, 24, 7, 1)
    assert min(rounds_by_length(table, k)) >= 4
    assert len(transitions(table, k)) >= fewest


def test_accepting_everything_reaches_to_the_end_of_the_reply() -> None:
    table = all_right(np.zeros((2, 6), np.int64), 3)
    assert table.tolist() == [[3, 3, 3, 2, 1]] * 2
    assert list(walk(table[0], 3)) == [(1, 3), (5, 1)]
