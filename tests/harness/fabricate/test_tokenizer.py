"""The tokenizer and the configs, through the library that engines use and against golden files."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from harness.fabricate.shape import ModelShape
from harness.fabricate.tokenizer import (
    SPECIALS,
    byte_order,
    model_config,
    tokenizer_config,
    tokenizer_json,
    write_tokenizer,
)
from harness.records.fixture import ascii_text

GOLDEN = Path(__file__).parents[2] / "golden" / "q4nx" / "tiny-qwen3"
SHAPE = ModelShape(hidden=256, intermediate=256, layers=2, heads=2, kv_heads=1, head_dim=128, vocab=256, padded_vocab=256)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    directory = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(directory, SHAPE, [5, 17], 64)
    return Tokenizer.from_file(str(directory / "tokenizer.json"))


def test_the_three_files_hold_what_the_golden_ones_hold() -> None:
    assert tokenizer_json() == json.loads((GOLDEN / "tokenizer.json").read_bytes())
    assert tokenizer_config([185, 187], 1024) == json.loads((GOLDEN / "tokenizer_config.json").read_bytes())
    want = json.loads((GOLDEN / "config.json").read_bytes())
    assert model_config(SHAPE, [185], 1024) == {**want, "eos_token_id": [185]}


def test_the_same_end_tokens_are_in_every_file_that_names_them(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, SHAPE, [5, 17], 64)
    found = {name: json.loads((tmp_path / name).read_bytes()) for name in ("config.json", "tokenizer_config.json")}
    assert {name: content["eos_token_id"] for name, content in found.items()} == {name: [5, 17] for name in found}


def test_every_byte_that_utf8_uses_round_trips_as_one_id(tokenizer: Tokenizer) -> None:
    id_of_byte = {byte: token for token, byte in enumerate(byte_order())}
    seen = set()
    for point in [*range(0xC0), *range(0xD0, 0x800, 0x40), 0x800, *range(0x1000, 0x110000, 0x1000)]:
        if 0xD800 <= point < 0xE000:
            continue
        text = unicodedata.normalize("NFC", chr(point))
        got = tokenizer.encode(text, add_special_tokens=False).ids
        assert got == [id_of_byte[byte] for byte in text.encode()]
        assert tokenizer.decode(got, skip_special_tokens=False) == text
        seen |= set(text.encode())
    never_in_utf8 = {0xC0, 0xC1, *range(0xF5, 0x100)}
    assert seen == set(range(256)) - never_in_utf8


def test_all_256_ids_are_known_and_the_specials_sit_on_bytes_that_utf8_never_uses(tokenizer: Tokenizer) -> None:
    assert tokenizer.get_vocab_size(with_added_tokens=True) == 256
    assert {byte_order()[token] for token in SPECIALS} == {0xFD, 0xFE, 0xFF}
    for token, text in SPECIALS.items():
        assert tokenizer.encode(text, add_special_tokens=False).ids == [token]
        assert tokenizer.decode([token], skip_special_tokens=False) == text


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 93), min_size=1, max_size=40))
def test_printable_ascii_ids_and_text_are_one_to_one(tokenizer: Tokenizer, ids: list[int]) -> None:
    text = ascii_text(tuple(ids))
    assert tokenizer.encode(text, add_special_tokens=False).ids == ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=20).filter(lambda text: "<|" not in text and unicodedata.is_normalized("NFC", text)))
def test_any_text_round_trips(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) == len(text.encode())
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
