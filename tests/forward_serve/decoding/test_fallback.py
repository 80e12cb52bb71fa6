"""The fallback rule, by hand."""

from __future__ import annotations

import pytest

from forward_serve.decoding.fallback import SpecFallback


def thrown_at(below: float, window: int, records: list[int]) -> int | None:
    """Record until the rule throws; return what it says of when."""
    fallback = SpecFallback(below, window)
    for record in records:
        fallback.record(record)
    return fallback.fell_back_at


@pytest.mark.parametrize("window", [1, 3, 5])
def test_records_of_one_token_throw_at_exactly_the_window(window: int) -> None:
    assert thrown_at(1.5, window, [1] * 9) == window


@pytest.mark.parametrize(
    ("below", "records", "want"),
    [
        pytest.param(2.0, [2] * 9, None, id="exactly-the-bar-keeps-drafting"),
        pytest.param(2.5, [2] * 9, 3, id="under-the-bar-is-off"),
        pytest.param(2.0, [8, 8, 8, 1, 1, 1], 6, id="only-the-last-window-counts"),
        pytest.param(2.0, [1, 1, 4, 1], None, id="a-mean-of-two-is-not-under-two"),
        pytest.param(2.0, [1, 1], None, id="fewer-records-than-the-window"),
        pytest.param(0.0, [1] * 9, None, id="no-rule"),
    ],
)
def test_window_of_three(below: float, records: list[int], want: int | None) -> None:
    assert thrown_at(below, 3, records) == want


def test_off_stays_off_and_keeps_its_place() -> None:
    assert thrown_at(2.0, 2, [1, 1, 8, 8, 8, 1, 1]) == 2


def test_on_until_it_throws() -> None:
    fallback = SpecFallback(2.0, 1)
    before = fallback.is_off
    fallback.record(1)
    assert (before, fallback.is_off) == (False, True)
