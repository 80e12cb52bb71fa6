"""Recipes: what is read, and the one error that a broken one gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.errors import FileFormatError
from harness.fabricate.recipe import Behaviour, read_recipe
from tests.harness.fabricate.conftest import SMALL_RECIPE, TINY


def test_the_tiny_recipe_is_read_with_its_packs() -> None:
    recipe = read_recipe(TINY)
    assert {pack.name: pack.behaviour for pack in recipe.packs} == {
        "mixed": Behaviour.TABLE,
        "always": Behaviour.ALWAYS,
        "never": Behaviour.NEVER,
    }
    assert all(pack.shape.heads * pack.shape.head_dim != recipe.model.hidden for pack in recipe.packs)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 5", "sead = 5", "unknown field `sead`"),
        ("seed = 5", "", "missing required field `seed`"),
        ("seed = 5", 'seed = "five"', r"Expected `int`, got `str` - at `$.seed`"),
        ('name = "small"', 'name = "small+er"', "name='small+er': use letters, digits and dashes"),
        ('kind = "burst"', 'kind = "brust"', "Invalid enum value 'brust' - at `$.streams[1].kind`"),
        ("hidden = 256", "hidden = 200", "hidden=200 is no positive multiple of 256"),
        ("kv_heads = 1", "kv_heads = 3", "kv_heads=3 does not divide heads=2; use a divisor - at `$.model`"),
        ("padded_vocab = 288", "padded_vocab = 224", "padded_vocab=224 is below vocab=256"),
        ("padded_vocab = 288", "padded_vocab = 290", "padded_vocab=290 is no positive multiple of 32"),
        ("vocab = 256", "vocab = 128", "vocab=128: the tokenizer knows the 256 bytes"),
        ("taps = [0, 1]", "taps = [0, 2]", "packs 'mixed': taps=[0, 2]: a tap lies in 0..1"),
        ("taps = [0, 1]", "taps = []", "taps=[]: a draft trunk reads at least one layer"),
        ("mask_token_id = 250", "mask_token_id = 256", "mask_token_id=256 is outside 0..255"),
        ("block_size = 5", "block_size = 1", "block_size=1: a block holds the anchor and a draft"),
        ("context = 64", "context = 31", "context=31 is shorter than a stream"),
        ("reply_length = 16", "reply_length = 8", "reply_length=8: use 16 or more"),
        ("reply_length = 16", "reply_length = 80", "a miss needs as many different ids; use 90 or less"),
        ("seed = 5", "seed = 5\neos = [300]", "eos=[300]: name at least one id in 0..255"),
        ("seed = 5", "seed = 5\nhead = {temperature = 3.0}", "temperature=3.0 is no power of two"),
        ("seed = 5", "seed = 5\nhead = {repair_gap = 0.5}", "want 0 < repair <= rival < 1"),
        ("seed = 5", "seed = 5\nbounds = {float32 = 0.5}", "a bound below 1 lets a movement exceed a gap"),
        ("seed = 5", "seed = 5 5", "line 3"),
    ],
)
def test_a_broken_recipe_gives_one_error_with_file_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "broken.toml"
    assert old in SMALL_RECIPE
    path.write_text(SMALL_RECIPE.replace(old, new, 1))
    with pytest.raises(FileFormatError, match=re.escape(message)) as caught:
        read_recipe(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_two_packs_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.toml"
    path.write_text(SMALL_RECIPE + SMALL_RECIPE[SMALL_RECIPE.index("[[packs]]") :])
    with pytest.raises(FileFormatError, match=r"packs\.name='mixed' occurs 2 times; names differ"):
        read_recipe(path)


def test_a_missing_recipe_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none\.toml: cannot be read"):
        read_recipe(tmp_path / "none.toml")
