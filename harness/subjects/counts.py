"""What a subject says of a request's path: its log line and the object under `usage`. Read strictly; nothing is guessed.

    [spec] id=cmpl-7 path=spec drafter=lookup rounds=5 drafted=20 accepted=6 plain=3 tokens=14 cached=0 fallback=- reason=-

Whatever is missing, doubled, out of order or of another type is a CountsError, whose text becomes the answer's failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.records.recording import Counts, Round

LINE_KEYS = ("id", "path", "drafter", "rounds", "drafted", "accepted", "plain", "tokens", "cached", "fallback", "reason")
NUMBERS = ("rounds", "drafted", "accepted", "plain", "tokens", "cached")
PATHS = ("spec", "plain")
_WORD = re.compile(r"[^\s=]+")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")


class CountsError(ValueError):
    """A line or an object that is not what it should be; the text says where and why."""


def find_lines(lines: Sequence[str], prefix: str, response_id: str) -> list[str]:
    """Return the lines of this response, by prefix and `id=`."""
    wanted = f"id={response_id}"
    return [line for line in lines if is_counts_line(line, prefix) and wanted in line.split(" ")]


def is_counts_line(line: str, prefix: str) -> bool:
    """Whether a log line is one that carries counts."""
    return line.startswith(f"{prefix} ")


def parse_line(line: str, prefix: str) -> tuple[str, Counts]:
    """Return (response id, counts) of one line. Raises CountsError."""
    words = line.split(" ")
    if words[0] != prefix:
        raise CountsError(f"{line!r}: begins with {words[0]!r}; want {prefix!r}")
    pairs = [word.partition("=") for word in words[1:]]
    keys = tuple(key for key, _, _ in pairs)
    if keys != LINE_KEYS:
        raise CountsError(f"{line!r}: keys {' '.join(keys)}; want {' '.join(LINE_KEYS)}")
    values = {key: value for key, _, value in pairs}
    for key, value in values.items():
        if not _WORD.fullmatch(value):
            raise CountsError(f"{line!r}: {key}={value!r} is not one word")
    numbers = {key: _number(line, key, values[key]) for key in NUMBERS}
    fallback = None if values["fallback"] == "-" else _number(line, "fallback", values["fallback"])
    return values["id"], _counts(line, values["path"], values["drafter"], numbers, fallback, values["reason"])


def parse_usage(record: Any, rounds_field: str) -> tuple[Counts, tuple[Round, ...] | None]:
    """Return the counts of the object under `usage`, and its rounds where `rounds_field` names them. Raises CountsError."""
    if not isinstance(record, Mapping):
        raise CountsError(f"usage counts {record!r}: is no object")
    expected = {*LINE_KEYS[1:], *((rounds_field,) if rounds_field else ())}
    if set(record) != expected:
        wrong = sorted(set(record) ^ expected)
        raise CountsError(f"usage counts: keys {wrong} are missing or unknown; want {sorted(expected)}")
    place = "usage counts"
    for key in ("path", "drafter", "reason"):
        if not isinstance(record[key], str) or not _WORD.fullmatch(record[key]):
            raise CountsError(f"{place}: {key}={record[key]!r} is not one word")
    for key in (*NUMBERS, "fallback"):
        if not (is_count(record[key]) or (key == "fallback" and record[key] is None)):
            raise CountsError(f"{place}: {key}={record[key]!r} is no count")
    numbers = {key: record[key] for key in NUMBERS}
    counts = _counts(place, record["path"], record["drafter"], numbers, record["fallback"], record["reason"])
    return counts, read_rounds(record[rounds_field]) if rounds_field else None


def _counts(place: str, path: str, drafter: str, numbers: Mapping[str, int], fallback: int | None, reason: str) -> Counts:
    if path not in PATHS:
        raise CountsError(f"{place!r}: path={path!r}; want one of {', '.join(PATHS)}")
    return Counts(path=path, drafter=drafter, fallback=fallback, reason=reason, **numbers)


def _number(line: str, key: str, value: str) -> int:
    if not _NUMBER.fullmatch(value):
        raise CountsError(f"{line!r}: {key}={value!r} is no count")
    return int(value)


def is_count(value: Any) -> bool:
    """Whether a value is a whole number that counts something."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18


def read_rounds(value: Any) -> tuple[Round, ...]:
    """Return a list of rounds, each the ids proposed and how many were kept. Raises CountsError."""
    if not isinstance(value, list):
        raise CountsError(f"usage counts: rounds {value!r} are no list")
    return tuple(_round(index, one) for index, one in enumerate(value))


def _round(index: int, value: Any) -> Round:
    match value:
        case [list(ids), num_accepted] if all(map(is_count, ids)) and is_count(num_accepted):
            return Round(tuple(ids), num_accepted)
        case _:
            raise CountsError(f"usage counts: round {index} is {value!r}; want [[drafted ids], accepted]")
