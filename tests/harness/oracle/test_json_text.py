"""JSON objects and their beginnings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.oracle.json_text import is_object, may_become_object

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-999, 999), st.floats(-1e9, 1e9), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=5,
)


@settings(deadline=None, max_examples=80)
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), st.sampled_from([None, 1]), st.booleans())
def test_every_beginning_of_an_object_begins_one(value: dict[str, object], indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    assert is_object(text)
    assert all(may_become_object(text[:size]) for size in range(len(text) + 1))


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "1",
        "{a",
        '{"a" "b"',
        '{"a":01',
        '{"a":tru x',
        "{}}",
        '{"a":+',
        '{"\n',
        '{"a":N',
        '{"\\u00g',
        '{"a":1,}',
        "{,",
        '{"a":.5',
    ],
)
def test_what_no_object_begins_with_is_told(text: str) -> None:
    assert not may_become_object(text)


@pytest.mark.parametrize("text", ["", "[]", '"a"', '{"a":NaN}', '{"a":1', "{} {}", "[" * 100_000])
def test_what_is_no_object_is_told(text: str) -> None:
    assert not is_object(text)


@pytest.mark.parametrize(
    "text", ["", " \n", "{", '{"', '{"a\\', '{"\\u0', '{"a"', '{"a":', '{"a":-', '{"a":1e', '{"a":[', '{"a":{"b']
)
def test_a_beginning_in_the_middle_of_anything_is_one(text: str) -> None:
    assert may_become_object(text)
