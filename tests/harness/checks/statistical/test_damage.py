"""The shape of damage: what no rounding does, and what only looks like it."""

from __future__ import annotations

import pytest

from harness.checks.statistical.damage import Pair, damage

WANT = tuple(range(20))
OTHER = tuple(range(50, 70))
BOUND = 94


def shape(got: tuple[int, ...], index: int, want: tuple[int, ...] = WANT, **of_pair: object) -> str:
    return damage(Pair(want, got, **of_pair), index, [OTHER], BOUND)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_tokens_that_are_left_out_are_dropped(size: int) -> None:
    assert shape((*WANT[:5], *WANT[5 + size :]), 5) == f"{size} of plain's tokens dropped"


@pytest.mark.parametrize("size", [1, 2, 4])
def test_tokens_that_come_twice_are_doubled(size: int) -> None:
    assert shape((*WANT[:5], *WANT[5 - size : 5], *WANT[5:-size]), 5) == f"{size} tokens doubled"


@pytest.mark.parametrize(("want", "got"), [(WANT, WANT[:7]), (WANT[:7], WANT)])
def test_a_reply_that_is_a_beginning_of_the_other_is_damaged(want: tuple[int, ...], got: tuple[int, ...]) -> None:
    assert shape(got, 7, want).startswith("one reply is a beginning of the other")


def test_a_reply_that_goes_on_otherwise_is_not_damaged() -> None:
    assert shape((*WANT[:5], 40, 30, 41, 31, 42, 32), 5) == ""


def test_a_reply_that_meets_plains_for_a_few_tokens_only_is_not_damaged() -> None:
    assert shape((*WANT[:5], *WANT[6:9], 40, 41, 30, 42, 33), 5) == ""
    assert shape((*WANT[:5], *WANT[6:9]), 5) == ""


def test_a_run_of_another_requests_tokens_is_foreign_unless_it_is_the_requests_own_prompt() -> None:
    got = (*WANT[:5], 40, *OTHER[3:9])
    assert shape(got, 5) == "text of another request"
    assert shape(got, 5, prompt=OTHER) == ""
    assert shape((*WANT[:5], 40, *OTHER[3:8]), 5) == ""


def test_a_loop_is_damage_unless_plain_loops_too() -> None:
    got = (*WANT[:5], *(30, 31, 32) * 5)
    assert shape(got, 5) == "a loop that plain's reply lacks"
    assert shape(got, 5, (*WANT[:5], *(7, 8) * 8)) == ""
    assert shape((*WANT[:5], *(30, 31, 32) * 3), 5) == ""


@pytest.mark.parametrize(("wants_json", "found"), [(True, "broken JSON where plain's is whole"), (False, "")])
def test_json_that_breaks_is_damage_where_it_was_asked_for(wants_json: bool, found: str) -> None:
    texts = {"want_text": '{"a": 1}', "got_text": '{"a": 1'}
    assert shape((*WANT[:5], 40, 41, 42, 43), 5, wants_json=wants_json, **texts) == found
    assert shape((*WANT[:5], 40, 41, 42, 43), 5, wants_json=wants_json, want_text="{", got_text="{") == ""


def test_an_id_that_may_never_be_chosen_is_damage() -> None:
    assert shape((*WANT[:5], BOUND, 41), 5) == "id 94 may never be chosen"
