"""The engine's drafter beside the published `dflash` package, and the golden vectors beside what the package does today."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed; the golden vectors stand for the package (tests/golden/dflash)")
pytest.importorskip("dflash", reason="dflash is not installed; the golden vectors stand for the package (tests/golden/dflash)")
pytest.importorskip("transformers", reason="transformers is not installed, and dflash runs on it")

from dataclasses import fields
from pathlib import Path

import numpy as np

from tests.forward_serve.decoding.dflash.golden import (
    GOLDEN,
    TOLERANCE,
    GoldenTarget,
    Rounds,
    assert_equal,
    by_engine,
    config_of,
)
from tests.torch.published import by_package
from tests.torch.record import CASES, record

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated:FutureWarning"),  # the package's call of transformers
]


@pytest.mark.parametrize("name", CASES)
def test_engine_drafts_what_the_package_drafts(name: str) -> None:
    directory = GOLDEN / name
    rounds = by_package(directory, GOLDEN / "target")
    assert_equal(by_engine(directory, rounds, GoldenTarget(config_of(directory))), rounds)


@pytest.mark.parametrize("name", CASES)
def test_golden_vectors_are_what_the_package_says(name: str) -> None:
    want, got = Rounds.load(GOLDEN / name), by_package(GOLDEN / name, GOLDEN / "target")
    for field in fields(Rounds):
        np.testing.assert_allclose(getattr(got, field.name), getattr(want, field.name), atol=TOLERANCE, rtol=0)


def test_recorder_writes_the_golden_packs(tmp_path: Path) -> None:
    record(tmp_path)
    for name in ("target", *CASES):
        for file in ("config.json", "model.safetensors"):
            assert (tmp_path / name / file).read_bytes() == (GOLDEN / name / file).read_bytes()
