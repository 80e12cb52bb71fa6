"""What the certificate refuses: each bound with the fault that breaks it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness.fabricate.certificate import Certificate
from harness.fabricate.errors import BoundError, FabricationError
from harness.fabricate.margins import require_ratio
from harness.fabricate.model_certificate import certify_model
from harness.fabricate.recipe import Bounds, Recipe, read_recipe
from harness.fabricate.shape import LM_HEAD
from harness.fabricate.teacher import Teacher
from harness.records.files import read_json
from harness.records.fixture import Fixture


@pytest.fixture(scope="module")
def teacher(small: Fixture, small_path: Path) -> Teacher:
    return Teacher.read(Path(small.model), read_recipe(small_path).model, small.streams)


@pytest.fixture(scope="module")
def recipe(small_path: Path) -> Recipe:
    return read_recipe(small_path)


def changed(teacher: Teacher, row: int, by: np.ndarray) -> Teacher:
    head = teacher.head.copy()
    head[row] += by
    return Teacher({**teacher.weights, LM_HEAD: head}, teacher.shape, teacher.script)


def test_the_stored_certificate_is_what_a_second_measurement_finds(small: Fixture, teacher: Teacher, recipe: Recipe) -> None:
    stored = read_json(Path(small.model) / "certificate.json", Certificate).model
    again = certify_model(teacher, small.streams, recipe.bounds, recipe.head.ties, stored.num_flips, stored.cpu_seconds)
    assert again == stored


def test_a_container_that_says_another_token_is_refused_with_place_and_ids(
    small: Fixture, teacher: Teacher, recipe: Recipe
) -> None:
    wrong = changed(teacher, 93, 2 * teacher.head[small.streams[0].reply_ids[3]])
    with pytest.raises(FabricationError, match=r"main-1, token \d+: the container says id 93, the recipe prescribes"):
        certify_model(wrong, small.streams, recipe.bounds, recipe.head.ties, 0, 0.0)


def test_padded_rows_that_do_not_win_everywhere_are_refused(small: Fixture, teacher: Teacher, recipe: Recipe) -> None:
    wrong = changed(teacher, slice(256, None), -teacher.head[256:])  # type: ignore[arg-type]  # rows of zeros
    with pytest.raises(FabricationError, match=r"padded rows win at 0\.\d+ of the states, want 1"):
        certify_model(wrong, small.streams, recipe.bounds, recipe.head.ties, 0, 0.0)


def test_a_gap_that_rounding_could_close_is_refused() -> None:
    with pytest.raises(FabricationError, match=r"container: the smallest margin is 1\.50 times what bf16 moves, want 2"):
        require_ratio("container", "bf16", 1.5, 2.0)
    require_ratio("container", "bf16", 2.0, 2.0)


@pytest.mark.parametrize(("name", "rounding"), [("float32", "float32"), ("bf16", "bf16"), ("device", "bf16 device")])
def test_bounds_that_nothing_meets_fail_the_fabrication(small: Fixture, teacher: Teacher, name: str, rounding: str) -> None:
    bounds = msgspec.structs.replace(Bounds(), **{name: 1e9})
    with pytest.raises(BoundError, match=f"container: .* times what {rounding} moves"):
        certify_model(teacher, small.streams, bounds, (), 0, 0.0)


def test_ids_that_a_recipe_ties_and_the_head_does_not_are_refused(small: Fixture, teacher: Teacher, recipe: Recipe) -> None:
    low = small.streams[0].reply_ids[0]
    with pytest.raises(FabricationError, match=f"container, float64: ids {low} and 92 have other scores"):
        certify_model(teacher, small.streams, recipe.bounds, ((low, 92),), 0, 0.0)


def test_a_tie_that_no_reply_says_is_refused(small: Fixture, teacher: Teacher, recipe: Recipe) -> None:
    head = teacher.head.copy()
    head[93] = head[92]
    tied = Teacher({**teacher.weights, LM_HEAD: head}, teacher.shape, teacher.script)
    with pytest.raises(FabricationError, match=r"head\.ties: no reply says 92"):
        certify_model(tied, small.streams, recipe.bounds, ((92, 93),), 0, 0.0)
