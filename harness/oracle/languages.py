"""Small languages, built of parts that each know their beginnings: so a text can be told to be whole, to be cut short, or to be
neither. Whole texts are matched by Python's `re`; it knows no engine and no grammar library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """A set of texts."""

    pattern: str  # of its texts
    beginnings: str  # pattern of every beginning of one of its texts: the empty one and the whole ones among them

    def holds(self, text: str) -> bool:
        """Whether `text` is one of its texts."""
        return re.fullmatch(self.pattern, text) is not None

    def may_become(self, text: str) -> bool:
        """Whether `text` is the beginning of one of its texts."""
        return re.fullmatch(self.beginnings, text) is not None


def one_of(members: str) -> Language:
    """Return the texts of one character; `members` as they stand between the brackets of a pattern."""
    return Language(f"[{members}]", f"[{members}]?")


def literal(text: str) -> Language:
    """Return the language of one text."""
    return sequence(*(Language(re.escape(character), f"{re.escape(character)}?") for character in text))


def either(*languages: Language) -> Language:
    """Return the texts of all languages."""
    return Language(
        "|".join(f"(?:{one.pattern})" for one in languages),
        "|".join(f"(?:{one.beginnings})" for one in languages),
    )


def sequence(*languages: Language) -> Language:
    """Return the texts of one language after another."""
    wholes = [f"(?:{one.pattern})" for one in languages]
    cut = ["".join(wholes[:place]) + f"(?:{one.beginnings})" for place, one in enumerate(languages)]
    return Language("".join(wholes), "|".join(cut) or "")


def repeated(language: Language, least: int, most: int | None = None) -> Language:
    """Return `least` to `most` (None: any number of) texts of a language, one behind the other."""
    assert most is None or most >= max(least, 1), f"at most {most} of at least {least} repeats"
    whole = f"(?:{language.pattern})"
    most_before = "" if most is None else most - 1
    bounds = f"{{{least},{'' if most is None else most}}}"
    return Language(f"{whole}{bounds}", f"{whole}{{0,{most_before}}}(?:{language.beginnings})")
