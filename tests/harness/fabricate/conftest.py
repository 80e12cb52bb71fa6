"""The full tiny recipe from the shared cache, and a small one that is built in a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.fabricate.recipe import Recipe, read_recipe
from harness.fabricate.store import fabricate
from harness.fabricate.teacher import Teacher
from harness.records.fixture import Fixture

TINY = Path(__file__).parents[3] / "fixtures" / "recipes" / "tiny.toml"

SMALL_RECIPE = """
name = "small"
seed = 5
context = 64
prompt_length = 16
reply_length = 16
streams = [{kind = "main", seed = 1}, {kind = "burst", seed = 2}]

[model]
hidden = 256
intermediate = 256
layers = 3
heads = 2
kv_heads = 1
head_dim = 128
vocab = 256
padded_vocab = 288

[[packs]]
name = "mixed"
behaviour = "table"
seed = 1
trunk = {fast_pairs = 8, gate_gain = 1.5, output_gain = 3.0}

[packs.shape]
intermediate = 768
layers = 2
heads = 4
kv_heads = 2
head_dim = 48
taps = [0, 1]
block_size = 5
mask_token_id = 250
"""

SECOND = """
[[identities]]
name = "mixed2"
of = "mixed"
generation_2 = {conv_group_size = 64, selector_rank = 4, selector_top_k = 5}
"""


@pytest.fixture(scope="session")
def tiny_recipe() -> Recipe:
    return read_recipe(TINY)


@pytest.fixture(scope="session")
def tiny() -> Fixture:
    return fabricate(TINY)


@pytest.fixture(scope="session")
def tiny_teacher(tiny: Fixture, tiny_recipe: Recipe) -> Teacher:
    return Teacher.read(Path(tiny.model), tiny_recipe.model, tiny.streams)


@pytest.fixture(scope="session")
def small_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "small.toml"
    path.write_text(SMALL_RECIPE + SECOND)
    return path


@pytest.fixture(scope="session")
def small(small_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Fixture:
    return fabricate(small_path, tmp_path_factory.mktemp("cache"))
