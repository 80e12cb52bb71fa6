"""The mixing over a block's slots, by hand and by its rules."""

from __future__ import annotations

import numpy as np
import pytest

from forward_serve.decoding.dflash.conv import BlockConv, mixed, through
from forward_serve.decoding.interfaces import Rows

ROWS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def kernel_of(*taps: list[float], num_groups: int = 1) -> Rows:
    """A kernel [K, G, H / G] from its taps, each [H]."""
    return np.array(taps, np.float32).reshape(len(taps), num_groups, -1)


def deltas_of(*slots: list[list[float]]) -> Rows:
    """Deltas [B, K, G, 1] from each slot's taps, each [G]."""
    return np.array(slots, np.float32)[..., None]


def test_mix_of_two_taps_and_one_group_is_the_one_found_by_hand() -> None:
    kernel = kernel_of([1, 1], [0.5, -0.5])
    deltas = deltas_of([[0.1], [0.2]], [[0.3], [0.4]], [[0.5], [0.6]])
    want = [[1.1, 2.2], [4.8, 5.0], [10.8, 9.4]]
    np.testing.assert_allclose(mixed(ROWS, kernel, deltas), want, rtol=1e-6)


def test_groups_are_runs_of_neighbouring_channels() -> None:
    rows = np.ones((1, 6), np.float32)
    deltas = deltas_of([[10, 20, 30]])
    assert mixed(rows, kernel_of([0] * 6, num_groups=3), deltas).tolist() == [[10, 10, 20, 20, 30, 30]]


@pytest.mark.parametrize("num_taps", [1, 2, 3, 4, 5, 9])
def test_nothing_lies_before_the_first_slot_however_long_the_kernel(num_taps: int) -> None:
    kernel = kernel_of(*[[10.0**back] * 2 for back in range(num_taps)])
    deltas = np.zeros((3, num_taps, 1, 1), np.float32)
    want = [
        [sum(10.0**back * ROWS[slot - back, channel] for back in range(num_taps) if slot >= back) for channel in range(2)]
        for slot in range(3)
    ]
    assert mixed(ROWS, kernel, deltas).tolist() == want


def test_mix_leaves_its_input_alone() -> None:
    rows = ROWS.copy()
    mixed(rows, kernel_of([2, 2], [1, 1]), np.zeros((3, 2, 1, 1), np.float32))
    assert np.array_equal(rows, ROWS)


def test_rows_of_a_projection_go_by_side_then_tap_then_group() -> None:
    num_taps, num_groups = 3, 2
    projection = np.zeros((4, 2 * num_taps * num_groups), np.float32)
    projection[0] = np.arange(12)
    conv = BlockConv(np.zeros((2, num_taps, num_groups, 2), np.float32), projection)
    rows = np.zeros((3, 4), np.float32)
    rows[2] = [1, 0, 0, 0]
    prepared, deltas = conv.prepare(rows)
    assert deltas[2, :, :, 0].tolist() == [[6, 7], [8, 9], [10, 11]]
    assert prepared.tolist() == [[0] * 4, [0] * 4, [0, 0, 0, 0]]  # its own tap of group 0 is row 0, and that is 0
    ones = np.ones((3, 4), np.float32)
    assert conv.finish(ones, deltas).tolist() == [[0] * 4, [0] * 4, [24, 24, 27, 27]]


def test_deltas_of_both_sides_come_from_the_unmixed_input() -> None:
    kernels = kernel_of([3, 3], [0, 0])[None].repeat(2, axis=0)
    projection = np.array([[0, 0, 1, 0], [0, 0, 0, 0]], np.float32)  # side 1, tap 0 = channel 0 of the input
    conv = BlockConv(kernels, projection)
    prepared, deltas = conv.prepare(ROWS)
    assert prepared.tolist() == (3 * ROWS).tolist()
    assert deltas[:, 0, 0, 0].tolist() == [1, 3, 5]
    assert conv.finish(np.ones((3, 2), np.float32), deltas).tolist() == [[4, 4], [6, 6], [8, 8]]


def test_conv_wraps_its_sublayer_and_generation_1_has_none() -> None:
    kernels = np.array([2, 3], np.float32).reshape(2, 1, 1, 1)
    conv = BlockConv(kernels, np.zeros((1, 2), np.float32))
    rows = np.array([[1.0], [10.0]], np.float32)
    assert through(conv, rows, lambda x: x + 1).tolist() == [[9.0], [63.0]]
    assert through(None, rows, lambda x: x + 1).tolist() == [[2.0], [11.0]]
