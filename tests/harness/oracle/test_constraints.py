"""Grammars in their two spellings: the dialect's, and the one that replies are held against."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import pytest

from harness.oracle.constraints import CONSTRAINTS, SCHEMA, constraint_of

OF_NAME = {constraint.name: constraint for constraint in CONSTRAINTS}
WHOLE = {
    "fixed": "ABCXYZ",
    "alternating": "anbocpdq",
    "words": "caterpillar",
    "open": "12-34-56",
    "long": "12-" * 30,
    "response-schema": '{"ok": true, "tags": ["a", "bc"]}',
    "structured-schema": '\n{"tags":["bc"],\t"ok" :false}',
    "json-object": '{"a": [1, {}]}',
}
REGEXES = [name for name, constraint in OF_NAME.items() if "regex" in constraint.fields.get("structured_outputs", {})]


@pytest.mark.parametrize("name", OF_NAME)
def test_a_whole_text_is_whole_and_each_beginning_of_it_may_become_whole(name: str) -> None:
    constraint, text = OF_NAME[name], WHOLE[name]
    assert constraint.is_whole(text)
    assert all(constraint.may_become_whole(text[:size]) for size in range(len(text) + 1))
    assert not constraint.is_whole(text + "~")
    assert not constraint.may_become_whole(text + "~")


@pytest.mark.parametrize("name", REGEXES)
def test_a_text_that_the_pattern_matches_is_a_beginning_and_a_wrong_one_is_none(name: str) -> None:
    """Walks at random along what may follow: it must end in what the hand-written pattern matches, never beside it."""
    constraint, noise = OF_NAME[name], random.Random(name)
    pattern = re.compile(constraint.fields["structured_outputs"]["regex"])
    for _ in range(5):
        text = ""
        while not (constraint.is_whole(text) and noise.random() < 0.5):
            allowed = [letter for letter in map(chr, range(32, 127)) if constraint.may_become_whole(text + letter)]
            if not allowed:
                break
            text += noise.choice(allowed)
        assert pattern.fullmatch(text), text


def texts_of_schema() -> list[str]:
    values: list[Any] = [
        {"ok": ok, "tags": tags} for ok in (True, 1, None) for tags in (["a"], ["bc", "a"], [], ["a"] * 3, "a", ["b"])
    ]
    values += [{"ok": True}, {"ok": True, "tags": ["a"], "x": 1}, {"tags": ["bc"], "ok": False}, [], True]
    return [json.dumps(value, indent=indent) for value in values for indent in (None, 2)]


@pytest.mark.parametrize("name", ["response-schema", "structured-schema"])
def test_a_schemas_language_holds_exactly_what_a_validator_of_schemas_accepts(name: str) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    accepted = [text for text in texts_of_schema() if validator.is_valid(json.loads(text))]
    assert [text for text in texts_of_schema() if OF_NAME[name].is_whole(text)] == accepted
    assert len(accepted) == 6


@pytest.mark.parametrize("name", OF_NAME)
def test_a_body_is_told_its_grammar_whatever_else_it_asks(name: str) -> None:
    assert constraint_of({"prompt": "a", "logprobs": 1, **OF_NAME[name].fields}) is OF_NAME[name]


@pytest.mark.parametrize("body", [{}, {"response_format": None}, {"structured_outputs": {"regex": "unknown"}}])
def test_a_body_without_a_grammar_or_with_an_unknown_one_has_none(body: dict[str, Any]) -> None:
    assert constraint_of(body) is None
