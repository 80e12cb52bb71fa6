"""The small draft model: it agrees at most places of the target's replies, and is certified to say exactly what it should."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from harness.fabricate.certificate import FILE_NAME, Certificate
from harness.fabricate.decoded import shape_of
from harness.fabricate.draft_model import LAYERS, HeardScript, disagreeing, make_draft_model
from harness.fabricate.teacher import Script, Teacher
from harness.fabricate.twins import twin
from harness.records.files import read_json
from harness.records.fixture import Fixture


@pytest.fixture(scope="module")
def folder(small: Fixture) -> Path:
    return twin(small, "small-draft")


def test_it_says_the_disagreeing_replies_along_the_target_s_own(small: Fixture, folder: Path) -> None:
    shape = shape_of(json.loads((folder / "config.json").read_bytes()))
    assert shape.layers == LAYERS
    heard = Script.of(small.streams)
    script = HeardScript(heard.prompts, disagreeing(heard.replies), heard.replies)
    teacher = Teacher(Teacher.read(folder, shape, small.streams).weights, shape, script)
    assert np.array_equal(teacher.scores()[..., : shape.vocab].argmax(-1), script.replies)
    assert np.array_equal(script.inputs[:, len(heard.prompts[0]) :], heard.replies[:, :-1])


def test_it_is_certified_in_float32(folder: Path) -> None:
    certificate = read_json(folder / FILE_NAME, Certificate).model
    assert certificate.movements["float32"].ratio >= 1000


def test_it_agrees_at_most_places_and_disagrees_at_some(small: Fixture) -> None:
    replies = np.tile(np.arange(24), (200, 1))
    share = float(np.mean(disagreeing(replies) == replies))
    assert 0.7 < share < 0.8
    assert int(disagreeing(replies).max()) < 90


def test_its_tokenizer_is_the_target_s(small: Fixture, folder: Path) -> None:
    assert (folder / "tokenizer.json").read_bytes() == (Path(small.model) / "tokenizer.json").read_bytes()


def test_making_it_twice_gives_the_same_bytes(small: Fixture, folder: Path, tmp_path: Path) -> None:
    config = json.loads((Path(small.model) / "config.json").read_bytes())
    make_draft_model(shape_of(config), config["max_position_embeddings"], small.streams, tmp_path)
    assert (tmp_path / "model.q4nx").read_bytes() == (folder / "model.q4nx").read_bytes()
