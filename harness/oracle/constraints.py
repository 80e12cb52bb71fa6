"""The grammars that plans constrain replies with: as the dialect spells them, and as languages that replies are held against.

The two spellings of a grammar are written side by side by hand; tests hold them against each other. It knows no engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.oracle.json_text import is_object, may_become_object
from harness.oracle.languages import Language, either, literal, one_of, repeated, sequence

FIELDS = ("response_format", "structured_outputs")
_SPACE = repeated(one_of(r" \t\r\n"), 0)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One grammar."""

    name: str
    fields: Mapping[str, Any]  # of a request's body
    is_whole: Callable[[str], bool]
    may_become_whole: Callable[[str], bool]


def constraint_of(body: Mapping[str, Any]) -> Constraint | None:
    """Return the grammar that a body asks for; None where it asks for none, or for one that is not known here."""
    asked = {name: body[name] for name in FIELDS if body.get(name) is not None}
    return next((one for one in CONSTRAINTS if one.fields == asked), None) if asked else None


def _of_regex(name: str, pattern: str, language: Language) -> Constraint:
    def is_whole(text: str) -> bool:
        return re.fullmatch(pattern, text) is not None

    return Constraint(name, {"structured_outputs": {"regex": pattern}}, is_whole, language.may_become)


def _of_language(name: str, language: Language, fields: Mapping[str, Any]) -> Constraint:
    return Constraint(name, fields, language.holds, language.may_become)


def _member(name: str, value: Language) -> Language:
    return sequence(literal(f'"{name}"'), _SPACE, literal(":"), _SPACE, value)


def _object(*members: Language) -> Language:
    """Return objects of exactly two members, in any order."""
    first, second = members
    comma = sequence(_SPACE, literal(","), _SPACE)
    inner = either(sequence(first, comma, second), sequence(second, comma, first))
    return sequence(_SPACE, literal("{"), _SPACE, inner, _SPACE, literal("}"), _SPACE)


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean"},
        "tags": {"type": "array", "items": {"enum": ["a", "bc"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["ok", "tags"],
    "additionalProperties": False,
}
_TAG = either(literal('"a"'), literal('"bc"'))
_TAGS = sequence(literal("["), _SPACE, _TAG, repeated(sequence(_SPACE, literal(","), _SPACE, _TAG), 0, 1), _SPACE, literal("]"))
_OF_SCHEMA = _object(_member("ok", either(literal("true"), literal("false"))), _member("tags", _TAGS))

_PAIR_OF_DIGITS = repeated(one_of("0-9"), 2, 2)

FIXED = _of_regex("fixed", "[A-Z]{6}", repeated(one_of("A-Z"), 6, 6))
ALTERNATING = _of_regex("alternating", "([a-m][n-z]){4}", repeated(sequence(one_of("a-m"), one_of("n-z")), 4, 4))
WORDS = _of_regex("words", "cat|caterpillar|dog", either(literal("cat"), literal("caterpillar"), literal("dog")))
OPEN = _of_regex("open", "[0-9]{2}(-[0-9]{2})*", sequence(_PAIR_OF_DIGITS, repeated(sequence(literal("-"), _PAIR_OF_DIGITS), 0)))
LONG = _of_regex("long", "([0-9]{2}-){30}", repeated(sequence(_PAIR_OF_DIGITS, literal("-")), 30, 30))
RESPONSE_SCHEMA = _of_language(
    "response-schema",
    _OF_SCHEMA,
    {"response_format": {"type": "json_schema", "json_schema": {"name": "tagged", "schema": SCHEMA}}},
)
STRUCTURED_SCHEMA = _of_language("structured-schema", _OF_SCHEMA, {"structured_outputs": {"json": SCHEMA}})
JSON_OBJECT = Constraint("json-object", {"response_format": {"type": "json_object"}}, is_object, may_become_object)

CONSTRAINTS: tuple[Constraint, ...] = (FIXED, ALTERNATING, WORDS, OPEN, LONG, RESPONSE_SCHEMA, STRUCTURED_SCHEMA, JSON_OBJECT)
