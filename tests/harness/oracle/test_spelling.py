"""What ids spell, held against the published tokenizer's own decoder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from harness.oracle.spelling import BYTES, SPECIALS, byte_of, spell
from harness.records.fixture import ascii_text

GOLDEN = Path(__file__).parents[2] / "golden" / "q4nx" / "tiny-qwen3" / "tokenizer.json"
LIBRARY = Tokenizer.from_file(str(GOLDEN))


def test_every_byte_has_one_id() -> None:
    assert sorted(BYTES) == list(range(256))


@given(st.lists(st.integers(0, 255), max_size=12))
@settings(max_examples=300, deadline=None)
def test_ids_spell_what_the_golden_tokenizer_decodes(ids: list[int]) -> None:
    assert spell(ids) == LIBRARY.decode(ids, skip_special_tokens=False)


def test_printable_ascii_is_one_to_one() -> None:
    ids = tuple(range(94))
    assert spell(ids) == ascii_text(ids)


def test_half_a_character_is_one_replacement_and_an_invalid_byte_another() -> None:
    ids = {byte: token for token, byte in enumerate(BYTES)}
    assert spell([ids[0xE2], ids[0x82]]) == "\N{REPLACEMENT CHARACTER}"
    assert spell([ids[0xE2], ids[0x82], ids[0xAC], ids[0xF8]]) == "€\N{REPLACEMENT CHARACTER}"


def test_specials_spell_their_literal() -> None:
    assert spell(sorted(SPECIALS)) == "<|im_end|><|im_start|><|endoftext|>"


@pytest.mark.parametrize("token", [-1, 256])
def test_an_id_beside_the_tokenizer_spells_nothing(token: int) -> None:
    with pytest.raises(ValueError, match=rf"id {token} spells nothing"):
        byte_of(token)
