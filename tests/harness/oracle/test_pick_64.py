from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.oracle.arithmetic64 import best, margins
from harness.oracle.pack64 import Selector64
from harness.oracle.pick_64 import selected
from harness.oracle.tensors64 import Array

NUM_IDS, SLOTS, RANK = 12, 4, 3


def selector(seed: int, top_k: int, num_rows: int = NUM_IDS) -> Selector64:
    rng = np.random.default_rng(seed)
    return Selector64(rng.normal(0, 1, (num_rows, RANK)), rng.normal(0, 1, (num_rows, RANK)), np.empty((RANK, 0)), top_k)


def by_loops(one: Selector64, scores: Array, gates: Array, anchor: int) -> list[int]:
    """The same walk, candidate by candidate."""
    drafts, before = [], anchor
    for slot in range(len(scores)):
        ranked = sorted(range(scores.shape[1]), key=lambda token: (-scores[slot, token], token))
        totals = {
            token: scores[slot, token]
            + sum(one.predecessors[before, r] * gates[slot, r] * one.successors[token, r] for r in range(RANK))
            for token in sorted(ranked[: one.top_k])
        }
        before = max(totals, key=lambda token: (totals[token], -token))
        drafts.append(before)
    return drafts


def test_the_hand_check_of_the_formats_page() -> None:
    predecessors = np.zeros((4, 2))
    predecessors[3] = 1
    successors = np.zeros((4, 2))
    successors[1] = 0.1
    one = Selector64(predecessors, successors, np.empty((2, 0)), top_k=2)
    got = selected(one, np.array([[1.0, 0.9, -5.0, -5.0]]), np.array([[1.0, 2.0]]), anchor_token=3)
    assert got.drafts == (1,)
    assert got.margins == pytest.approx((0.2 / 5,))  # 1.2 against 1.0, as a share of the largest score


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 9999), top_k=st.integers(1, NUM_IDS))
def test_a_walk_is_what_candidate_by_candidate_gives(seed: int, top_k: int) -> None:
    rng = np.random.default_rng([seed, 1])
    one, scores, gates = selector(seed, top_k), rng.normal(0, 1, (SLOTS, NUM_IDS)), rng.normal(0, 1, (SLOTS, RANK))
    assert list(selected(one, scores, gates, 5).drafts) == by_loops(one, scores, gates, 5)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 9999), top_k=st.integers(1, NUM_IDS))
def test_scores_that_move_by_less_than_half_the_margin_change_no_draft(seed: int, top_k: int) -> None:
    rng = np.random.default_rng([seed, 2])
    one, scores, gates = selector(seed, top_k), rng.normal(0, 1, (1, NUM_IDS)), rng.normal(0, 1, (1, RANK))
    got = selected(one, scores, gates, 5)
    moved = scores + rng.choice([-1.0, 1.0], scores.shape) * 0.49 * got.margins[0] * np.abs(scores).max()
    assert selected(one, moved, gates, 5).drafts == got.drafts


def test_a_winner_that_nearly_falls_out_of_the_candidates_has_a_small_margin() -> None:
    one = Selector64(np.ones((3, 1)), np.array([[0.0], [4.0], [0.0]]), np.empty((1, 0)), top_k=2)
    got = selected(one, np.array([[8.0, 7.0, 6.5]]), np.array([[1.0]]), 0)
    assert got.drafts == (1,)  # 8 against 11, and an outsider half a point below the cut
    assert got.margins == pytest.approx((0.5 / 11,))


def test_an_outsider_that_would_win_if_let_in_counts_as_near_as_the_cut() -> None:
    one = Selector64(np.ones((4, 1)), np.array([[2.0], [0.0], [9.0], [0.0]]), np.empty((1, 0)), top_k=2)
    got = selected(one, np.array([[8.0, 5.0, 4.0, 1.0]]), np.array([[1.0]]), 0)
    assert got.drafts == (0,)  # the id 2 would have 13, and is one point below the cut
    assert got.margins == pytest.approx((1 / 10,))


def test_of_equal_scores_the_lowest_ids_are_candidates_and_the_lowest_wins() -> None:
    one = Selector64(np.zeros((4, 1)), np.zeros((4, 1)), np.empty((1, 0)), top_k=2)
    got = selected(one, np.array([[1.0, 3.0, 3.0, 3.0]]), np.array([[1.0]]), 0)
    assert (got.drafts, got.margins) == ((1,), pytest.approx((2 / 3,)))  # the next smaller score is 1


def test_codebook_rows_of_padding_choose_nothing() -> None:
    one = selector(1, NUM_IDS, num_rows=NUM_IDS + 4)
    one.successors[NUM_IDS:] = 1e6
    rng = np.random.default_rng(3)
    got = selected(one, rng.normal(0, 1, (SLOTS, NUM_IDS)), rng.normal(0, 1, (SLOTS, RANK)), anchor_token=NUM_IDS + 1)
    assert max(got.drafts) < NUM_IDS


def test_first_generation_margins_are_leads_over_the_second() -> None:
    scores = np.array([[0.5, 2.0, -4.0]])
    assert (best(scores).tolist(), margins(scores).tolist()) == ([1], [0.375])
