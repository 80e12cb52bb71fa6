"""The rules that tell a near-tie from a fault, one by one, over observations."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checks.statistical.near_tie import Band, Kind, Observed, calibrated, classify, top_gap

WANT, GOT, THIRD = (1, 2, 3), (1, 4, 5), (1, 6, 7)
BAND = Band(0.01, (0.002, 0.5, 1.0), 30)


def seen(**changes: Any) -> Observed:
    """Return what is seen of a near-tie, with changes."""
    fields: dict[str, Any] = {
        "want": WANT,
        "got": GOT,
        "index": 1,
        "damage": "",
        "num_drafted": 4,
        "plain_again": (WANT, WANT),
        "drafting_again": (GOT, GOT),
        "histories": {"after another request": GOT, "beside another request": GOT},
        "remembers": False,
        "is_greedy": True,
        "top_gap": 0.003,
        "nudge_gap": 0.004,
        "forced": (0.0, 0.003, 0.0),
    }
    return Observed(**(fields | changes))


def kind(**changes: Any) -> Kind:
    return classify(seen(**changes), BAND).kind


def test_a_close_choice_that_falls_the_other_way_everywhere_alike_is_a_near_tie_with_its_sizes() -> None:
    got = classify(seen(), BAND)
    assert (got.kind, got.gap, got.worst_forced) == (Kind.NEAR_TIE, 0.003, 0.003)
    assert BAND.rank(0.003) == 1


def test_the_gap_of_a_draw_is_the_nudge_that_moves_it() -> None:
    assert classify(seen(is_greedy=False), BAND).gap == 0.004


def test_replies_without_a_difference_are_equal() -> None:
    assert kind(index=None, got=WANT) is Kind.EQUAL


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"num_drafted": 0}, Kind.VOID),
        ({"plain_again": (None,)}, Kind.VOID),
        ({"plain_again": ()}, Kind.VOID),
        ({"histories": {"after another request": None}}, Kind.VOID),
        ({"top_gap": None}, Kind.VOID),
        ({"forced": (None, None, None)}, Kind.VOID),
        ({"plain_again": (WANT, THIRD)}, Kind.UNSTABLE),
        ({"drafting_again": (GOT, WANT)}, Kind.UNSTABLE),
        ({"drafting_again": (GOT, WANT), "damage": "a token dropped"}, Kind.UNSTABLE),
        ({"damage": "a token dropped"}, Kind.FAULT),
        ({"damage": "a token dropped", "plain_again": (None,), "num_drafted": 0}, Kind.FAULT),
        ({"plain_again": (THIRD, THIRD)}, Kind.FAULT),
        ({"drafting_again": (WANT, WANT)}, Kind.FAULT),
        ({"histories": {"after another request": WANT}}, Kind.FAULT),
        ({"top_gap": 0.0, "nudge_gap": 0.001}, Kind.FAULT),
        ({"top_gap": 0.02, "nudge_gap": 0.03}, Kind.FAULT),
        ({"nudge_gap": 0.02, "is_greedy": False}, Kind.FAULT),
        ({"nudge_gap": None}, Kind.FAULT),
        ({"forced": (0.0, 0.003, 0.02)}, Kind.FAULT),
        ({"forced": (0.0, None, float("inf"))}, Kind.FAULT),
    ],
    ids=str,
)
def test_each_rule_alone_decides(changes: dict[str, Any], want: Kind) -> None:
    assert kind(**changes) is want


def test_a_subject_that_does_not_say_what_it_drafted_is_told_by_the_other_rules() -> None:
    assert kind(num_drafted=None) is Kind.NEAR_TIE


def test_scores_that_are_equal_to_the_bit_say_nothing_of_a_draw() -> None:
    assert kind(top_gap=0.0, is_greedy=False) is Kind.NEAR_TIE


def test_a_drafter_that_learns_may_fall_either_way_and_no_third() -> None:
    assert kind(remembers=True, histories={"after another request": WANT}) is Kind.NEAR_TIE
    assert kind(remembers=True, histories={"after another request": THIRD}) is Kind.FAULT


def test_a_model_whose_plain_arm_was_not_measured_has_no_band_and_excuses_nothing() -> None:
    assert classify(seen(), None).kind is Kind.VOID


def test_a_model_whose_scores_do_not_move_excuses_nothing() -> None:
    still = calibrated([({"a": -1.0, "b": -2.0}, {"a": -1.0, "b": -2.0})])
    assert still is not None
    assert classify(seen(), still).kind is Kind.FAULT


def test_the_band_is_twice_the_largest_move_of_a_score_that_both_rows_show() -> None:
    got = calibrated([({"a": -1.0, "b": -2.0}, {"a": -1.25, "c": -9.0}), ({"a": -0.5, "b": -3.5}, {"a": -0.5, "b": -3.0})])
    assert got == Band(1.0, (1.0, 3.0), 3)
    assert calibrated([]) is None


def test_a_row_of_one_score_has_no_gap() -> None:
    assert top_gap({"a": -1.0}) is None
    assert top_gap({"a": -1.0, "b": -1.5, "c": -0.5}) == 0.5
