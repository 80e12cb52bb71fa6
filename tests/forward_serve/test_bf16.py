"""Widening is exact, and rounding takes the nearest bfloat16 with ties to even."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forward_serve import bf16


def bits(values: NDArray[np.float32]) -> list[str]:
    return [f"{word:08x}" for word in values.view(np.uint32)]


def from_bits(*words: int) -> NDArray[np.float32]:
    return np.array(words, np.uint32).view(np.float32)


def test_widened_bytes_are_the_upper_halves_of_floats() -> None:
    assert bits(bf16.widened(np.array([0x80, 0x3F, 0x01, 0xC0], np.uint8))) == ["3f800000", "c0010000"]


@pytest.mark.parametrize(
    ("word", "want"),
    [
        (0x3F800000, "3f800000"),
        (0x3F807FFF, "3f800000"),
        (0x3F808000, "3f800000"),  # a tie, down to the even one
        (0x3F808001, "3f810000"),
        (0x3F818000, "3f820000"),  # a tie, up to the even one
        (0xBF818000, "bf820000"),
        (0x3FFF8000, "40000000"),  # into the next exponent
        (0x00000001, "00000000"),
        (0x80008001, "80010000"),  # denormal, negative
        (0x7F7FFFFF, "7f800000"),  # overflows
        (0x7F800000, "7f800000"),
        (0xFF800000, "ff800000"),
    ],
)
def test_a_float_is_rounded_to_the_nearest_even_bfloat16(word: int, want: str) -> None:
    assert bits(bf16.rounded(from_bits(word))) == [want]


@pytest.mark.parametrize("word", [0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_nan_stays_one_whatever_its_payload(word: int) -> None:
    assert np.isnan(bf16.rounded(from_bits(word))).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_any_floats_are_rounded_as_the_format_s_library_does(words: list[int]) -> None:
    values = from_bits(*words)
    with np.errstate(all="ignore"):
        want = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(bf16.rounded(values), want)


def test_rounding_keeps_the_shape_of_a_view_and_leaves_its_source_alone() -> None:
    source = np.arange(24, dtype=np.float32).reshape(2, 3, 4) + np.float32(0.001)
    before = source.copy()
    got = bf16.rounded(source[:, 1:, ::2])
    assert got.tolist() == [[[4, 6], [8, 10]], [[16, 18], [20, 22]]]
    np.testing.assert_array_equal(source, before)
