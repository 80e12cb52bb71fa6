from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import FileFormatError
from harness.oracle.container64 import read_container, read_facts
from tests.harness.oracle.golden import edit_config, unpacked


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return unpacked(tmp_path / "tiny")


def test_the_golden_container_says_where_replies_end(directory: Path) -> None:
    got = read_facts(directory)
    assert (got.end_tokens, got.context, read_container(directory).bound) == ((185, 187), 1024, 256)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"tokenizer_config.json": [3, 5], "config.json": 7}, (3, 5, 187, 185)),
        ({"tokenizer_config.json": None, "config.json": 7}, (7, 187, 185)),
        ({"tokenizer_config.json": None, "config.json": None}, (187, 185)),
    ],
    ids=["tokenizer-config-first", "config-last", "no-source"],
)
def test_the_first_file_that_names_end_tokens_decides_and_two_names_always_end(
    directory: Path, changes: dict[str, Any], want: tuple[int, ...]
) -> None:
    for file, end_tokens in changes.items():
        edit_config(directory, file, eos_token_id=end_tokens)
    assert read_facts(directory).end_tokens == want


def test_generation_config_comes_between_the_two(directory: Path) -> None:
    (directory / "generation_config.json").write_text("{}")
    edit_config(directory, "tokenizer_config.json", eos_token_id=None)
    edit_config(directory, "generation_config.json", eos_token_id=9)
    assert read_facts(directory).end_tokens == (9, 187, 185)


def test_a_twin_of_other_ends_has_the_same_weights_and_one_of_another_theta_has_not(directory: Path) -> None:
    original = read_facts(directory).weights
    edit_config(directory, eos_token_id=7, max_position_embeddings=24)
    assert read_facts(directory).weights == original
    edit_config(directory, rope_theta=10000)
    assert read_facts(directory).weights != original


def test_rows_that_no_token_owns_are_padding(directory: Path) -> None:
    text = (directory / "tokenizer.json").read_text()
    (directory / "tokenizer.json").write_text(text.replace(": 255", ": 254"))  # two names of one id, none of the last
    assert read_container(directory).bound == 255


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_theta": None}, "config.json: key rope_theta is missing; the oracle guesses no default"),
        ({"num_attention_heads": 3}, r"q_proj.weight is I8 .*, a q4_1 matrix of 384 x 256"),
        ({"vocab_size": 320}, r"embed_tokens.weight is BF16 \[256, 256\], the config asks for BF16 \[320, 256\]"),
    ],
)
def test_a_config_at_odds_with_the_weights_is_refused(directory: Path, changes: dict[str, Any], message: str) -> None:
    edit_config(directory, **changes)
    with pytest.raises(FileFormatError, match=message):
        read_container(directory)


def test_a_config_that_is_no_json_is_refused(directory: Path) -> None:
    (directory / "config.json").write_text("{")
    for read in (read_facts, read_container):
        with pytest.raises(FileFormatError, match=r"config\.json: cannot be read"):
            read(directory)


def test_weights_that_are_gone_are_an_error(directory: Path) -> None:
    (directory / "model.q4nx").unlink()
    for read in (read_facts, read_container):
        with pytest.raises(FileFormatError, match=r"model\.q4nx: cannot be read"):
            read(directory)
