"""Roundings."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from harness.fabricate.numerics import (
    BF16,
    DEVICE,
    EXACT,
    FLOAT32,
    bf16_bytes,
    bf16_values,
    noise_sample,
    stochastic_bf16,
    to_bf16,
)


def test_bf16_rounds_ties_to_even() -> None:
    one_and_bits = 1 + np.array([0.5, 1.5, 2.5]) * 2.0**-7
    np.testing.assert_array_equal(to_bf16(one_and_bits), 1 + np.array([0, 2, 2]) * 2.0**-7)


def test_bf16_bytes_are_the_upper_half_of_float32() -> None:
    values = np.array([1.0, -2.5, 0.0])
    assert bf16_bytes(values) == values.astype(ml_dtypes.bfloat16).tobytes()
    np.testing.assert_array_equal(bf16_values(bf16_bytes(values)), values)


def test_stochastic_rounding_takes_a_neighbour_and_is_right_on_average() -> None:
    values = np.full(40_000, -(1 + 0.25 * 2.0**-7))
    got = stochastic_bf16(np.random.default_rng(1))(values)
    assert set(got.tolist()) == {-1.0, -(1 + 2.0**-7)}
    assert abs(np.mean(got == -1.0) - 0.75) < 0.02


def test_stochastic_rounding_leaves_exact_values_alone() -> None:
    values = np.array([0.0, 1.5, -3.0, 2.0**-20])
    np.testing.assert_array_equal(stochastic_bf16(np.random.default_rng(1))(values), values)


def test_a_device_rounds_weights_and_leaves_its_drafter_to_the_host() -> None:
    values = np.array([1 + 2.0**-9, -3.0], np.float32)
    np.testing.assert_array_equal(DEVICE.weight(values), np.array([1.0, -3.0], np.float32))
    assert DEVICE.of_drafter is FLOAT32
    for other in (EXACT, BF16):
        np.testing.assert_array_equal(other.weight(values), values)
        assert other.of_drafter is other


def test_noise_samples_of_one_seed_are_equal_and_of_two_differ() -> None:
    values = np.random.default_rng(2).standard_normal(64)
    first, again, other = (noise_sample(seed).activation(values) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
