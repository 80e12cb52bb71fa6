"""Recipes written again with other seeds: every seed moves, nothing else does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.defaults import DEFAULT_RECIPE
from harness.errors import UsageError
from harness.fabricate.recipe import read_recipe
from harness.fabricate.reseed import reseeded


def test_every_seed_of_a_recipe_and_its_companions_moves_and_nothing_else(tmp_path: Path) -> None:
    path = reseeded(DEFAULT_RECIPE, 7, tmp_path / "new")
    assert path == tmp_path / "new" / DEFAULT_RECIPE.name
    for name in (DEFAULT_RECIPE.name, *read_recipe(DEFAULT_RECIPE).companions):
        old, new = ((folder / name).read_text().splitlines() for folder in (DEFAULT_RECIPE.parent, path.parent))
        moved = [int(line.split(" = ")[1]) for line in old if re.match(r"seed\b", line)]
        assert [line for line in new if re.match(r"seed\b", line)] == [f"seed = {seed + 7000}" for seed in moved] != []
        assert [line for line in new if not re.match(r"seed\b", line)] == [line for line in old if not re.match(r"seed\b", line)]
    assert read_recipe(path).companions == read_recipe(DEFAULT_RECIPE).companions


@pytest.mark.parametrize("number", [0, -1])
def test_a_number_that_moves_nothing_is_refused(number: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"^--reseed {number}: other seeds are wanted; give 1 or more$"):
        reseeded(DEFAULT_RECIPE, number, tmp_path)


def test_recipes_that_are_there_already_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "text.toml").write_text("mine")
    with pytest.raises(UsageError, match=r"holds a text\.toml already; give a new folder$"):
        reseeded(DEFAULT_RECIPE, 1, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["text.toml"]
