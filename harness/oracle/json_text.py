"""Whether a text is a JSON object, or the beginning of one: by completing it, and by the standard library's parser."""

from __future__ import annotations

import json
from typing import Any

# What can complete a text inside a value: nothing, the rest of a string, an escape, a number, a word, or a missing value.
_INSIDE_TEXT = ('"', 'n"', *("0" * count + '"' for count in range(1, 5)))
_ELSEWHERE = ("", "0", '""', '"":0', ":0", "rue", "ue", "e", "alse", "lse", "se", "ull", "ll", "l")


def is_object(text: str) -> bool:
    """Whether `text` is one JSON object."""
    return isinstance(_parsed(text), dict)


def may_become_object(text: str) -> bool:
    """Whether `text` is the beginning of a JSON object."""
    if not text.strip(" \t\r\n"):
        return True
    closers, is_inside_text = _open_parts(text)
    tails = [tail + after for tail in _INSIDE_TEXT for after in ("", ":0")] if is_inside_text else _ELSEWHERE
    return any(is_object(text + tail + closers) for tail in tails)


def _open_parts(text: str) -> tuple[str, bool]:
    """Return what closes the brackets that are open, innermost first, and whether the text ends inside a string."""
    closers: list[str] = []
    is_inside, is_escaped = False, False
    for character in text:
        if is_inside:
            is_inside = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            is_inside = True
        elif character in "{[":
            closers.append("}" if character == "{" else "]")
        elif character in "}]" and closers:
            closers.pop()
    return "".join(reversed(closers)), is_inside


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")
