"""The two fields that constrain a reply, `response_format` and `structured_outputs`. Knows how they are spelled, no grammar.

Each gives the source of one grammar; whether that is one, and whether a reply can satisfy it, constraint.py finds out.
"""

from __future__ import annotations

import json
from typing import Any

from forward_serve.errors import RequestError
from forward_serve.serving.body import Fields, flag, mapping, param_of, parse_object, refuse, text
from forward_serve.serving.request import Grammar, GrammarKind

RESPONSE_FORMAT, STRUCTURED_OUTPUTS = "response_format", "structured_outputs"
FORMATS = ("text", "json_object", "json_schema")
ANY_OBJECT = '{"type": "object"}'
COMPILER_OPTIONS = "x-guidance"  # a key of a schema by which it would switch off rules of its compiler


def read_grammar(fields: Fields) -> Grammar | None:
    """Read both fields; None where neither asks for anything. Raises RequestError naming field, value and rule."""
    asked = fields.take(RESPONSE_FORMAT, _response_format)
    structured = fields.take(STRUCTURED_OUTPUTS, _structured_outputs)
    if asked is not None and structured is not None:
        raise RequestError(f"{STRUCTURED_OUTPUTS}: not allowed beside {RESPONSE_FORMAT}; give one of the two", STRUCTURED_OUTPUTS)
    return asked or structured


def _response_format(name: str, value: Any) -> Grammar | None:
    fields = Fields(mapping(name, value), name)
    kind = fields.take("type", text)
    if kind not in FORMATS:
        refuse(fields.path("type"), kind, f"one of {', '.join(FORMATS)}", "use one of them")
    grammar = Grammar(GrammarKind.JSON_SCHEMA, ANY_OBJECT, name) if kind == "json_object" else None
    if kind == "json_schema":
        place = fields.path("json_schema")
        grammar = fields.take("json_schema", _named_schema)
        if grammar is None:
            raise RequestError(f"{place}: missing; type json_schema has one", name)
    fields.refuse_unknown()
    return grammar


def _named_schema(name: str, value: Any) -> Grammar:
    """Read a schema with its label; `strict` changes nothing, since every reply is held to the schema."""
    fields = Fields(mapping(name, value), name)
    fields.take("name", text)
    fields.take("description", text)
    fields.take("strict", flag)
    grammar = fields.take("schema", _schema)
    if grammar is None:
        raise RequestError(f"{fields.path('schema')}: missing; give a JSON schema", param_of(name))
    fields.refuse_unknown()
    return grammar


def _structured_outputs(name: str, value: Any) -> Grammar:
    fields = Fields(mapping(name, value), name)
    given = [grammar for grammar in (fields.take("regex", _regex), fields.take("json", _schema)) if grammar is not None]
    fields.refuse_unknown()
    if len(given) != 1:
        refuse(name, value, "an object with one of regex and json", "give one of the two")
    return given[0]


def _regex(name: str, value: Any) -> Grammar:
    return Grammar(GrammarKind.REGEX, text(name, value), name)


def _schema(name: str, value: Any) -> Grammar:
    """Read a JSON schema, as an object or as a string that holds one."""
    schema = parse_object(value, name) if isinstance(value, str) else mapping(name, value)
    if COMPILER_OPTIONS in schema:
        raise RequestError(f"{name}.{COMPILER_OPTIONS}: not served; leave it out", param_of(name))
    try:
        return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema), name)
    except RecursionError:
        refuse(name, value, "a schema of reasonable depth", "nest it less deeply")
