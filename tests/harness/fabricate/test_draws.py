"""Parts that miss a bound are drawn again, by seeds that follow from their own, and not for ever."""

from __future__ import annotations

import pytest

from harness.fabricate.draws import Draws, seed_of_draw
from harness.fabricate.errors import BoundError, FabricationError

MOST = 16


class Maker:
    """Makes a part that misses its bound the first `misses` times."""

    def __init__(self, misses: int) -> None:
        self.misses = misses
        self.numbers: list[int] = []

    def __call__(self, number: int) -> str:
        self.numbers.append(number)
        if number < self.misses:
            raise BoundError(f"draw {number} is too narrow")
        return f"draw {number}"


def test_the_first_draw_has_the_seed_of_the_recipe_and_no_other_has_one_that_a_recipe_states() -> None:
    assert seed_of_draw(7, 0) == 7
    seeds = {seed_of_draw(seed, number) for seed in range(100) for number in range(MOST)}
    assert len(seeds) == 100 * MOST
    assert sorted(seeds)[:100] == list(range(100))
    assert sorted(seeds)[100] > 1 << 31


def test_a_part_that_meets_its_bounds_is_drawn_once_and_leaves_no_trace() -> None:
    draws, make = Draws(MOST), Maker(0)
    assert draws.sound("container", make) == "draw 0"
    assert make.numbers == [0]
    assert draws.missed == {}


def test_a_part_is_drawn_until_it_meets_its_bounds_and_what_it_missed_is_kept_under_its_name() -> None:
    draws, make = Draws(MOST), Maker(2)
    assert draws.sound("pack mixed", make) == "draw 2"
    assert make.numbers == [0, 1, 2]
    assert draws.sound("pack never", Maker(0)) == "draw 0"
    assert draws.missed == {"pack mixed": ["draw 0 is too narrow", "draw 1 is too narrow"]}


def test_a_part_that_is_sound_and_will_not_do_goes_on_from_its_next_draw() -> None:
    draws, make = Draws(MOST), Maker(1)
    draws.sound("pack mixed2", make)
    draws.miss("pack mixed2", BoundError("shows nothing"))
    assert draws.sound("pack mixed2", make) == "draw 2"
    assert draws.missed == {"pack mixed2": ["draw 0 is too narrow", "shows nothing"]}


def test_a_part_whose_every_draw_misses_is_refused_with_all_that_was_missed() -> None:
    make = Maker(MOST)
    with pytest.raises(BoundError, match=rf"^pack mixed: drawn {MOST} times, and each .*\n  draw 0 is .*\n  draw 1 "):
        Draws(MOST).sound("pack mixed", make)
    assert make.numbers == list(range(MOST))


def test_whatever_is_no_missed_bound_is_not_drawn_again() -> None:
    numbers = []

    def make(number: int) -> None:
        numbers.append(number)
        raise FabricationError("a fault of the fabricator")

    draws = Draws(MOST)
    with pytest.raises(FabricationError, match=r"^a fault of the fabricator$"):
        draws.sound("container", make)
    assert numbers == [0]
    assert draws.missed == {}
