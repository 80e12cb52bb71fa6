"""Text that a subject may have chosen, made harmless for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return text in which every character that a terminal could act on is escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
