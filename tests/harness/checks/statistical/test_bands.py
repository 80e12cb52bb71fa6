"""The band of logprobs: numbers within it agree, everything else must be equal."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checks.statistical.bands import SCORE_BAND, agree

NEAR = SCORE_BAND / 2


@pytest.mark.parametrize(
    ("want", "got", "is_same"),
    [
        (-1.0, -1.0 + NEAR, True),
        (-1.0, -1.0 + 3 * SCORE_BAND, False),
        (0.0, -1.5, False),
        ({"a": [-1.0, {"b": -2.0}]}, {"a": [-1.0 - NEAR, {"b": -2.0 + NEAR}]}, True),
        ({"a": -1.0}, {"b": -1.0}, False),
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
