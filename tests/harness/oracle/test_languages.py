"""Languages built of parts: whole texts against Python's `re`, beginnings against all texts of small languages."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.oracle.languages import Language, either, literal, one_of, repeated, sequence

ALPHABET = "abc"
TEXTS = ["".join(letters) for size in range(6) for letters in itertools.product(ALPHABET, repeat=size)]
ATOMS = st.one_of(st.sampled_from(["a", "ab", "bc", "cab"]).map(literal), st.sampled_from(["a", "a-b", "bc"]).map(one_of))
BOUNDS = st.sampled_from([(0, 1), (1, 1), (2, 2), (0, 2), (1, 3), (0, None), (2, None)])
LANGUAGES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: sequence(*parts)),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: either(*parts)),
        st.tuples(inner, BOUNDS).map(lambda pair: repeated(pair[0], *pair[1])),
    ),
    max_leaves=4,
)


@settings(deadline=None, max_examples=60)
@given(LANGUAGES)
def test_every_beginning_of_a_text_of_the_language_begins_one(language: Language) -> None:
    for text in filter(language.holds, TEXTS):
        assert all(language.may_become(text[:size]) for size in range(len(text) + 1))


@settings(deadline=None, max_examples=60)
@given(st.lists(ATOMS, min_size=1, max_size=3).map(lambda parts: either(*parts)))
def test_what_begins_no_text_of_a_finite_language_is_told(language: Language) -> None:
    held = [text for text in TEXTS if language.holds(text)]
    for text in TEXTS:
        assert language.may_become(text) == any(one.startswith(text) for one in held)


@pytest.mark.parametrize(
    ("language", "pattern"),
    [
        (repeated(one_of("A-Z"), 6, 6), "[A-Z]{6}"),
        (repeated(sequence(one_of("a-m"), one_of("n-z")), 4, 4), "([a-m][n-z]){4}"),
        (either(literal("cat"), literal("caterpillar")), "cat|caterpillar"),
        (repeated(literal("a.b"), 0), r"(a\.b)*"),
    ],
)
def test_a_language_holds_what_its_hand_written_pattern_matches(language: Language, pattern: str) -> None:
    for text in ("", "ABCDEF", "ABCDE", "anbocpdq", "an", "cat", "caterpillar", "cater", "a.b", "a.ba.b", "axb", "cats"):
        assert language.holds(text) == (re.fullmatch(pattern, text) is not None)


def test_a_longer_literal_goes_on_where_a_shorter_one_ends() -> None:
    words = either(literal("cat"), literal("caterpillar"))
    assert [words.may_become(text) for text in ("", "cat", "cate", "cata", "caterpillar", "caterpillars")] == [
        True,
        True,
        True,
        False,
        True,
        False,
    ]


def test_a_repeat_of_at_most_nothing_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="at most 0 of at least 0 repeats"):
        repeated(literal("a"), 0, 0)
