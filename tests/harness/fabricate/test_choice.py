"""Choices of both generations: a hand-computed selector, the cut, ties, and what a margin is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.fabricate.choice import Choices, Selector, choose

ZERO = np.zeros((1, 1, 2))


def selector(successors: list[list[float]], top_k: int = 2, multiplier: float = 1.0, cap: float | None = None) -> Selector:
    return Selector(np.ones((4, 2)), np.array(successors), np.array([[1.0, 0.0], [0.0, 1.0]]), top_k, multiplier, cap)


def one_slot(logits: list[float], chosen: Selector | None, hidden: NDArray[np.float64] = ZERO) -> Choices:
    return choose(chosen, hidden, np.array([[logits]]), np.array([3]))


def test_the_selector_turns_a_lead_worked_out_by_hand() -> None:
    got = one_slot([1.0, 0.9], selector([[0, 0], [0.1, 0.1]]), np.array([[[1.0, 2.0]]]))
    np.testing.assert_allclose(got.scores[0, 0], [1.0, 1.2])
    assert got.drafts.tolist() == [[1]]
    np.testing.assert_allclose(got.lead(), [[0.1]])


def test_an_id_outside_the_cut_never_wins_and_the_cut_takes_the_lowest_of_equals() -> None:
    liked = selector([[0, 0], [0, 0], [0, 0], [9, 9]])
    got = one_slot([1.0, 0.9, 0.5, 0.8], liked, np.array([[[1.0, 1.0]]]))
    assert got.drafts.tolist() == [[0]]
    assert one_slot([1.0, 0.5, 0.5, 0.5], liked).inside[0, 0].tolist() == [True, True, False, False]


def test_equal_scores_take_the_lowest_id() -> None:
    assert one_slot([0.5, 1.0, 1.0], None).drafts.tolist() == [[1]]
    assert one_slot([1.0, 1.0, 0.0], selector([[0, 0]] * 3)).drafts.tolist() == [[0]]


def test_multiplier_and_cap_are_applied_before_the_edges_and_the_cut_is_on_plain_logits() -> None:
    got = one_slot([2.0, 1.0, -4.0], selector([[0, 0], [1, 0], [9, 9]], multiplier=0.5, cap=2.0), np.array([[[1.0, 0.0]]]))
    np.testing.assert_allclose(got.scores[0, 0], [2 * np.tanh(0.5), 2 * np.tanh(0.25) + 1, 2 * np.tanh(-1) + 9])
    assert got.drafts.tolist() == [[1]]


def test_each_slot_follows_the_one_before_or_what_it_is_told() -> None:
    chosen = Selector(np.array([[1.0], [-1.0]]), np.array([[1.0], [-1.0]]), np.array([[1.0, 0.0]]), 2, 1.0, None)
    hidden, logits = np.tile([1.0, 0.0], (1, 2, 1)), np.zeros((1, 2, 2))
    assert choose(chosen, hidden, logits, np.array([1])).drafts.tolist() == [[1, 1]]
    assert choose(chosen, hidden, logits, np.array([1]), np.array([[0, -1]])).drafts.tolist() == [[1, 0]]
    assert choose(chosen, hidden, logits, np.array([1]), np.array([[-1, -1]])).drafts.tolist() == [[1, 1]]


def test_a_margin_is_the_narrowest_of_gap_and_cut_and_knows_an_id_that_only_the_cut_keeps_out() -> None:
    bait = selector([[0, 0], [0, 0], [9, 9]])
    got = one_slot([1.0, 0.4, 0.3], bait, np.array([[[1.0, 1.0]]]))
    np.testing.assert_allclose(got.margins(), [[0.1]])  # the bait would win, and is 0.1 outside
    np.testing.assert_allclose(got.margins(logit_unit=0.1), [[0.6]])  # now its 1.0 beyond the cut's unit; the gap is 0.6
    np.testing.assert_allclose(one_slot([1.0, 0.4, 0.3], None).margins(), [[0.6]])


def test_the_cut_between_two_ids_is_in_units_of_the_one_that_moves_farther_and_any_candidate_may_fall_out() -> None:
    got = one_slot([1.0, 0.4, 0.3], selector([[0, 0]] * 3))
    assert got.inside.tolist() == [[[True, True, False]]]
    for units, behind, stays in (([1.0, 0.5, 0.1], 0.2, 0.7), ([10.0, 0.05, 0.1], 0.07, 0.07), ([0.1, 0.1, 0.2], 0.5, 3.5)):
        np.testing.assert_allclose(got.behind(np.array(units)), [[[-np.inf, -np.inf, behind]]])
        np.testing.assert_allclose(got.stays_in(np.array(units)), [[stays]])
    np.testing.assert_allclose(got.behind(), [[[-np.inf, -np.inf, 0.1]]])
    assert one_slot([1.0, 0.4, 0.3], None).behind(np.ones(3)).tolist() == [[[-np.inf] * 3]]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 12))
def test_no_movement_below_half_a_margin_changes_a_draft(seed: int, top_k: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = Selector(rng.standard_normal((30, 3)), rng.standard_normal((30, 3)), rng.standard_normal((3, 8)), top_k, 0.7, 3.0)
    hidden, logits = rng.standard_normal((1, 1, 8)), rng.standard_normal((1, 1, 30)) * 3
    right = choose(chosen, hidden, logits, np.array([0]))
    moved_logits = logits + rng.uniform(-1, 1, logits.shape) * right.margins()[..., None] * 0.49
    moved = choose(chosen, hidden, moved_logits, np.array([0]))
    assert moved.drafts.tolist() == right.drafts.tolist()


def test_an_unknown_previous_token_is_no_silent_zero() -> None:
    with pytest.raises(IndexError):
        choose(selector([[0, 0], [1, 0]]), ZERO, np.zeros((1, 1, 2)), np.array([7]))
