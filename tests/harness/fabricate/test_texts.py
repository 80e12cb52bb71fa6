"""Streams that are not ASCII: characters that rounds cut, bytes that are no UTF-8, and ties."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.fabricate.errors import FabricationError
from harness.fabricate.lookup import rounds, text_of
from harness.fabricate.streams import Kind, StreamRecipe, edges_inside, make_streams
from harness.fabricate.texts import ids_of
from harness.fabricate.tokenizer import SPECIALS, byte_order
from harness.records.fixture import Stream, bytes_of_ids, text_of_ids

SEEDS = st.integers(0, 2**31)
TIES = ((26, 90), (28, 92))


def one(kind: Kind, seed: int, length: int = 48) -> Stream:
    (stream,) = make_streams([StreamRecipe(kind, seed)], 16, length, TIES)
    return stream


def test_ids_and_bytes_follow_the_tokenizers_alphabet() -> None:
    assert list(bytes_of_ids(tuple(range(256)))) == byte_order()
    assert bytes_of_ids(tuple(ids_of("aé😀".encode()))) == "aé😀".encode()


@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_utf8_replies_are_whole_characters_that_rounds_of_both_widths_cut(seed: int) -> None:
    stream = one(Kind.UTF8, seed)
    assert stream.prompt.isascii()
    assert bytes_of_ids(stream.reply_ids).decode() == stream.reply
    assert max(len(character.encode()) for character in stream.reply) > 1
    for k in (4, 7):
        assert edges_inside(list(stream.prompt_ids), list(stream.reply_ids), k)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_invalid_replies_hold_every_kind_twice_and_end_in_half_a_character(seed: int) -> None:
    stream = one(Kind.INVALID, seed)
    said = bytes_of_ids(stream.reply_ids)
    assert len(said) == 48
    assert said.endswith(b"\xf0\x9f\x98")
    assert stream.reply.endswith("\ufffd")
    assert said.count(b"\xed\xa0\x80") == said.count(b"\xc0\xaf") == said.count(b"\xf4\x90\x80") == 2
    assert not set(stream.reply_ids) & SPECIALS.keys()
    with pytest.raises(UnicodeDecodeError):
        said.decode()


@pytest.mark.parametrize(
    ("content", "want"),
    [(b"\x80a", "\ufffda"), (b"\xe2\x82a", "\ufffda"), (b"\xc0\xaf", "\ufffd\ufffd"), (b"\xf0\x9f\x98", "\ufffd")],
)
def test_an_invalid_maximal_part_is_one_replacement_character(content: bytes, want: str) -> None:
    assert text_of_ids(tuple(ids_of(content))) == want


@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_tie_replies_say_the_lower_id_where_lookup_proposes_the_higher_one(seed: int) -> None:
    stream = one(Kind.TIE, seed, 24)
    assert {90, 92} <= set(stream.prompt_ids)
    assert not {26, 28} & set(stream.prompt_ids)
    assert not {90, 92} & set(stream.reply_ids)
    proposed = {
        (stream.reply_ids[step.emitted + step.accepted], ord(step.drafts[step.accepted]))
        for step in rounds(text_of(stream.prompt_ids), text_of(stream.reply_ids), 4)
        if step.accepted < len(step.drafts)
    }
    assert set(TIES) <= proposed


def test_an_invalid_stream_too_short_for_every_kind_is_refused() -> None:
    with pytest.raises(FabricationError, match="invalid stream: 46 bytes do not hold every kind twice; use 47 or more"):
        one(Kind.INVALID, 1, 46)


def test_a_tie_stream_without_ties_is_refused() -> None:
    with pytest.raises(FabricationError, match=r"head\.ties=\[\] leaves nothing to tie"):
        make_streams([StreamRecipe(Kind.TIE, 1)], 16, 24)
