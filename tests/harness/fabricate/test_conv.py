"""The grouped convolution: a hand-computed block, and coefficients that a fit relies on."""

from __future__ import annotations

import numpy as np
import pytest

from harness.fabricate.conv import Mixing


def test_a_block_worked_out_by_hand() -> None:
    base = np.array([[1.0, 1.0], [0.5, -0.5]])
    deltas = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])[:, :, None]
    got = Mixing(base, deltas)(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    np.testing.assert_allclose(got, [[1.1, 2.2], [4.8, 5.0], [10.8, 9.4]])


def test_more_taps_than_slots_read_zeros() -> None:
    mixing = Mixing(np.ones((3, 2)), np.zeros((1, 3, 1)))
    np.testing.assert_array_equal(mixing(np.array([[5.0, 6.0]])), [[5.0, 6.0]])


def test_group_coefficients_are_the_sum_of_both_parts_and_refuse_a_part_that_varies_in_a_group() -> None:
    deltas = np.array([[[0.5, 0.25]]])
    got = Mixing(np.array([[1.0, 1.0, 2.0, 2.0]]), deltas).group_coefficients()
    np.testing.assert_array_equal(got, [[[1.5, 2.25]]])
    with pytest.raises(AssertionError, match="varies inside a group"):
        Mixing(np.array([[1.0, 1.5, 2.0, 2.0]]), deltas).group_coefficients()
