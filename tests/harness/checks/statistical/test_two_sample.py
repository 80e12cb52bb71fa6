"""The two-sample test: its false alarms are as rare as it says, and what it must tell apart it tells apart."""

from __future__ import annotations

import numpy as np
import pytest

from harness.checks.statistical.two_sample import EVERYWHERE, Samples, compare

DEALS = 199
SMALLEST = 1 / (DEALS + 1)


def drawn(seed: int, num_replies: int = 40, weights: tuple[float, ...] = (0.5, 0.3, 0.2), size: int = 3) -> Samples:
    generator = np.random.default_rng(seed)
    return [tuple(int(one) for one in row) for row in generator.choice(len(weights), (num_replies, size), p=weights)]


def test_draws_of_one_distribution_fall_below_a_tenth_in_a_tenth_of_all_comparisons() -> None:
    p_values = [compare({"a": (drawn(2 * seed), drawn(2 * seed + 1))}, DEALS).p_value for seed in range(300)]
    assert 0.05 <= np.mean([one <= 0.1 for one in p_values]) <= 0.15
    assert np.mean([one <= 0.5 for one in p_values]) == pytest.approx(0.5, abs=0.09)


def test_sides_that_share_no_token_get_the_smallest_p_value_there_is() -> None:
    left, right = [(0, 1)] * 30, [(2, 3)] * 30
    assert compare({"a": (left, right)}, DEALS).p_value == SMALLEST


def test_one_position_that_differs_in_one_of_two_strata_is_found_and_named() -> None:
    odd = [(one[0], 9, one[2]) if index % 2 else one for index, one in enumerate(drawn(4, 60))]
    got = compare({"same": (drawn(1, 60), drawn(2, 60)), "odd": (drawn(3, 60), odd)}, DEALS)
    assert (got.p_value, got.place) == (SMALLEST, "odd, token 1")


def test_neighbours_that_hang_together_are_found_though_each_position_alone_is_right() -> None:
    coins = np.random.default_rng(5).integers(0, 2, (80, 2))
    apart = [(int(first), int(second)) for first, second in coins]
    together = [(index % 2, index % 2) for index in range(80)]
    got = compare({"a": (apart, together)}, DEALS)
    assert (got.p_value, got.place) == (SMALLEST, "a, tokens 0 and 1")


def test_a_small_shift_at_every_place_shows_in_the_sum_over_all_of_them() -> None:
    left, right = drawn(20, 300, (0.5, 0.5), 24), drawn(21, 300, (0.58, 0.42), 24)
    got = compare({"a": (left, right)}, DEALS)
    assert (got.p_value, got.place) == (SMALLEST, EVERYWHERE)


def test_where_a_reply_ends_is_part_of_it() -> None:
    whole, cut = drawn(8), [one[:2] for one in drawn(9)]
    assert compare({"a": (whole, cut)}, DEALS).p_value == SMALLEST


def test_rare_tokens_share_a_cell_and_are_not_dropped() -> None:
    usual = [(0,)] * 30
    rare = [(100 + index,) if index < 12 else (0,) for index in range(30)]
    assert compare({"a": (usual, rare)}, DEALS).p_value == SMALLEST


def test_the_same_replies_give_the_same_answer_and_sides_may_be_swapped() -> None:
    left, right = drawn(10), drawn(11, 25)
    assert compare({"a": (left, right)}, DEALS) == compare({"a": (left, right)}, DEALS)
    assert compare({"a": (right, left)}, DEALS).p_value == pytest.approx(compare({"a": (left, right)}, DEALS).p_value, abs=0.15)


def test_nothing_is_told_of_replies_that_are_all_the_same() -> None:
    with pytest.raises(ValueError, match="every reply is the same"):
        compare({"a": ([(1, 2)] * 20, [(1, 2)] * 20)}, DEALS)


def test_a_side_without_replies_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="hit-2: 40 and 0 replies"):
        compare({"hit-2": (drawn(1), [])}, DEALS)
