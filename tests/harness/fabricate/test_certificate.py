"""What the certificate refuses: each bound with the fault that breaks it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness.fabricate.certificate import Certificate, Movement, certify_model, require_ratios
from harness.fabricate.errors import FabricationError
from harness.fabricate.recipe import Bounds, read_recipe
from harness.fabricate.shape import LM_HEAD
from harness.fabricate.teacher import Teacher
from harness.records.files import read_json
from harness.records.fixture import Fixture


@pytest.fixture(scope="module")
def teacher(small: Fixture, small_path: Path) -> Teacher:
    return Teacher.read(Path(small.model), read_recipe(small_path).model, small.streams)


def changed(teacher: Teacher, row: int, by: np.ndarray) -> Teacher:
    head = teacher.head.copy()
    head[row] += by
    return Teacher({**teacher.weights, LM_HEAD: head}, teacher.shape, teacher.script)


def test_the_stored_certificate_is_what_a_second_measurement_finds(small: Fixture, teacher: Teacher) -> None:
    stored = read_json(Path(small.model) / "certificate.json", Certificate).model
    again = certify_model(teacher, small.streams, Bounds(), stored.num_flips, stored.cpu_seconds)
    assert again == stored


def test_a_container_that_says_another_token_is_refused_with_place_and_ids(small: Fixture, teacher: Teacher) -> None:
    wrong = changed(teacher, 93, 2 * teacher.head[small.streams[0].reply_ids[3]])
    with pytest.raises(FabricationError, match=r"main-1, token \d+: the container says id 93, the recipe prescribes"):
        certify_model(wrong, small.streams, Bounds(), 0, 0.0)


def test_padded_rows_that_do_not_win_everywhere_are_refused(small: Fixture, teacher: Teacher) -> None:
    wrong = changed(teacher, slice(256, None), -teacher.head[256:])  # type: ignore[arg-type]  # rows of zeros
    with pytest.raises(FabricationError, match=r"padded rows win at 0\.\d+ of the states, want 1"):
        certify_model(wrong, small.streams, Bounds(), 0, 0.0)


@pytest.mark.parametrize("name", ["float32", "bf16"])
def test_a_gap_that_rounding_could_close_is_refused(name: str) -> None:
    movements = {one: Movement(0.1, 1e6) for one in ("float32", "bf16")} | {name: Movement(0.1, 1.5)}
    with pytest.raises(FabricationError, match=f"container: smallest gap is 1.50 times what {name} moves, want"):
        require_ratios("container", movements, Bounds())


def test_bounds_that_nothing_meets_fail_the_fabrication(small: Fixture, teacher: Teacher) -> None:
    bounds = msgspec.structs.replace(Bounds(), float32=1e9)
    with pytest.raises(FabricationError, match="times what float32 moves"):
        certify_model(teacher, small.streams, bounds, 0, 0.0)
