"""The band of logprobs: numbers within it agree, everything else must be equal."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checks.statistical.bands import COARSE_BAND, SCORE_BAND, agree, band_of

NEAR = SCORE_BAND / 2


@pytest.mark.parametrize(
    ("want", "got", "is_same"),
    [
        (-1.0, -1.0 + NEAR, True),
        (-1.0, -1.0 + 3 * SCORE_BAND, False),
        (0.0, -1.5, False),
        ({"a": [-1.0, {"b": -2.0}]}, {"a": [-1.0 - NEAR, {"b": -2.0 + NEAR}]}, True),
        ({"a": -1.0}, {"b": -1.5}, False),
        ({"a": -1.0, "b": -2.0}, {"a": -1.0, "c": -2.0 - NEAR}, True),
        ({"a": -1.0, "b": -2.0}, {"a": -1.0, "c": -1.5}, False),
        ({"a": -1.0, "b": -2.0}, {"b": -2.0, "c": -2.0}, False),
        ({"a": -1.0, "b": "t"}, {"a": -1.0, "c": "t"}, False),
        ({"a": -1.0}, {}, False),
        ([-1.0, -2.0], [-1.0], False),
        ([-1.0, -2.0], [-2.0, -1.0], False),
        ("t", "t", True),
        ("t", "u", False),
        (None, -1.0, False),
        (("t", -1.0), ("t", -1.0 + NEAR), True),
    ],
)
def test_numbers_agree_within_the_band_and_all_else_if_equal(want: Any, got: Any, is_same: bool) -> None:
    assert agree(want, got) is is_same


def test_the_band_is_wide_only_for_subjects_that_are_not_certified() -> None:
    assert (band_of(is_certified=True), band_of(is_certified=False)) == (SCORE_BAND, COARSE_BAND)
    assert agree([-1.0], [-1.0 + COARSE_BAND / 2], COARSE_BAND)
    assert not agree([-1.0], [-1.1], COARSE_BAND)
