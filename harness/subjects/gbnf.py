"""Regular expressions as llama.cpp's grammars (GBNF), for the part of the language that plans use. Pure.

Taken over: literals, classes, groups, alternatives, `*`, `+`, `?` and counts. Anything else raises ValueError: a grammar that means
something else than the expression would be worse than none.
"""

from __future__ import annotations

import re

_COUNT = re.compile(r"\{\d+(,\d*)?\}")
_CLASS = re.compile(r"\[\^?(?:\\[\\\]\[^nrt-]|[^\\\]\[])+\]")
_PLAIN = re.compile(r"[^\\.^$*+?{}\[\]|()]|\\[\\.^$*+?{}\[\]|()\-]")
_REPEATS = "*+?"


def grammar_of(pattern: str) -> str:
    """Return the grammar whose texts are those that match the whole pattern. Raises ValueError for what is not taken over."""
    parts: list[str] = []
    at = depth = 0
    while at < len(pattern):
        part, size = _part(pattern, at, follows=bool(parts) and parts[-1] not in ("(", "|"))
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth < 0:
            break
        parts.append(part)
        at += size
    if depth:
        raise ValueError(f"{pattern!r}: its groups are not closed")
    return f"root ::= {_spaced(parts)}"


def _part(pattern: str, at: int, *, follows: bool) -> tuple[str, int]:
    """Return the grammar's next part, and how many characters of the pattern it stands for."""
    char = pattern[at]
    if char in "()|" and not pattern.startswith("(?", at):
        return char, 1
    if follows and char in _REPEATS and pattern[at + 1 : at + 2] not in {*_REPEATS}:
        return char, 1
    for shape, spelled in ((_COUNT, str), (_CLASS, str), (_PLAIN, _literal)):
        found = shape.match(pattern, at)
        if found and (shape is not _COUNT or follows):
            return spelled(found[0]), len(found[0])
    raise ValueError(f"{pattern!r}: character {at} ({char!r}) is not taken over into a grammar")


def _literal(text: str) -> str:
    char = text[-1]
    return '"\\' + char + '"' if char in '"\\' else f'"{char}"'


def _spaced(parts: list[str]) -> str:
    """Join parts; what repeats stands right behind what it repeats."""
    text = ""
    for part in parts:
        text += part if not text or part[0] in _REPEATS or _COUNT.fullmatch(part) else f" {part}"
    return text
