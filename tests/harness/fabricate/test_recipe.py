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
        "mixed2": Behaviour.TABLE,
        "flip2": Behaviour.TABLE,
        "window1": Behaviour.TABLE,
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
        ("mask_token_id = 250", "mask_token_id = 288", "mask_token_id=288 is outside 0..287"),
        ("block_size = 5", "block_size = 1", "block_size=1: a block holds the anchor and a draft"),
        ("context = 64", "context = 31", "context=31 is shorter than a stream"),
        ("reply_length = 16", "reply_length = 8", "reply_length=8: use 16 or more"),
        ("reply_length = 16", "reply_length = 80", "a miss needs as many different ids; use 90 or less"),
        ("seed = 5", "seed = 5\neos = [300]", "eos=[300]: name at least one id in 0..255"),
        ("seed = 5", "seed = 5\nhead = {temperature = 3.0}", "temperature=3.0 is no power of two"),
        ("seed = 5", "seed = 5\nhead = {repair_gap = 0.5}", "want 0 < repair <= rival < 1"),
        ("seed = 5", "seed = 5\nbounds = {float32 = 0.5}", "a bound below 1 lets a movement exceed a gap"),
        ("block_size = 5", "block_size = 5\nwindow = 4", "window=4 is below block_size=5"),
        ("block_size = 5", "block_size = 5\nfull_layers = [2]", "full_layers=[2]: a layer lies in 0..1"),
        ("layers = 2", "layers = 0", "layers=0: a draft trunk has at least one"),
        (
            "block_size = 5",
            "block_size = 5\ngeneration_2 = {conv_group_size = 7}",
            "conv_group_size=7 does not divide hidden=256",
        ),
        ("block_size = 5", "block_size = 5\ngeneration_2 = {selector_top_k = 256}", "selector_top_k=256 cuts nothing of 256 ids"),
        ("block_size = 5", "block_size = 5\ngeneration_2 = {selector_top_k = 1}", "one candidate leaves nothing to select"),
        ("block_size = 5", "block_size = 5\noutput_multiplier = 0.0", "output_multiplier, input_embedding_scale and"),
        ('behaviour = "table"', 'behaviour = "table"\nflip = {}', "flip needs a selector; give shape.generation_2"),
        ("seed = 5", 'seed = 5\nsight = {packs = ["other"]}', "sight.packs: ['other'] are no packs of this recipe"),
        ("seed = 5", "seed = 5\nsight = {history = 1.5}", "history=1.5 is no share in 0..1"),
        ("seed = 5", "seed = 5\nsight = {lookup = [0]}", "lookup=[0]: a draft length is at least 1"),
        (
            "seed = 5",
            'seed = 5\nidentities = [{name = "b", of = "c"}]',
            "identities.of='c' is no generation 1 pack without window",
        ),
        ("seed = 5", "seed = 5\nhead = {ties = [[5, 5]]}", "ties=[[5, 5]]: want pairs low < high of different ids below 94"),
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
