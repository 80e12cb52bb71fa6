"""What an answer says of the scores of its tokens: logprobs in both spellings of the dialect, and files of logits. Pure.

It reads values and computes log-softmax; it knows no law and no plan.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.oracle.spelling import NUM_IDS, spell
from harness.records.recording import Dump

FLOAT32 = "<f4"


class BrokenScoresError(ValueError):
    """Scores that are not what the dialect says; the text says where."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One token of a reply: its text, its logprob, and the alternatives beside it in the order given."""

    token: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...]
    offset: int | None = None  # characters of the reply in front of it; a chat does not say it


def read_logprobs(value: Any) -> tuple[Scored, ...]:
    """Read `logprobs` of a choice, in the spelling of completions or of chat. Raises BrokenScoresError."""
    if not isinstance(value, Mapping):
        raise BrokenScoresError(f"logprobs: {value!r} is no object")
    if "content" in value:
        return tuple(_of_chat(index, one) for index, one in enumerate(_listed(value, "content")))
    columns = [_listed(value, name) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")]
    if len({len(column) for column in columns}) != 1:
        raise BrokenScoresError(
            f"logprobs: lists of {', '.join(str(len(column)) for column in columns)} entries are beside each other"
        )
    return tuple(
        Scored(_text(index, token), _number(index, logprob), _named(index, alternatives), _count(index, offset))
        for index, (token, logprob, alternatives, offset) in enumerate(zip(*columns, strict=True))
    )


def log_softmax(row: Sequence[float]) -> list[float]:
    """Return the logprobs of a row of logits, in float64."""
    top = max(row)
    log_sum = top + math.log(math.fsum(math.exp(score - top) for score in row))
    return [score - log_sum for score in row]


def rows_of(dump: Dump) -> list[tuple[float, ...]]:
    """Return the rows of a file of logits. Raises BrokenScoresError for one that holds no rows of float32."""
    if dump.dtype != FLOAT32 or len(dump.shape) != 2:
        raise BrokenScoresError(f"dump: {dump.dtype} of shape {dump.shape}; want {FLOAT32} [tokens, vocabulary]")
    num_rows, size = dump.shape
    return [struct.unpack_from(f"<{size}f", dump.content, 4 * size * index) for index in range(num_rows)]


def as_float32(value: float) -> float:
    """Return the nearest float32: the precision of logits, on which all who compute with float64 agree."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def ids_by_text() -> dict[str, int]:
    """Return the ids of the fabricated tokenizer whose text no other id has."""
    texts = [spell((token,)) for token in range(NUM_IDS)]
    return {text: token for token, text in enumerate(texts) if texts.count(text) == 1}


def _of_chat(index: int, value: Any) -> Scored:
    if not isinstance(value, Mapping):
        raise BrokenScoresError(f"logprobs: entry {index} is {value!r}, no object")
    alternatives = []
    for one in _listed(value, "top_logprobs"):
        if not isinstance(one, Mapping):
            raise BrokenScoresError(f"logprobs: an alternative of entry {index} is {one!r}, no object")
        alternatives.append((_text(index, one.get("token")), _number(index, one.get("logprob"))))
    return Scored(_text(index, value.get("token")), _number(index, value.get("logprob")), tuple(alternatives))


def _named(index: int, value: Any) -> tuple[tuple[str, float], ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise BrokenScoresError(f"logprobs: alternatives of entry {index} are {value!r}, no object")
    return tuple((_text(index, token), _number(index, logprob)) for token, logprob in value.items())


def _listed(value: Mapping[str, Any], name: str) -> list[Any]:
    listed = value.get(name)
    if not isinstance(listed, list):
        raise BrokenScoresError(f"logprobs: {name}={listed!r} is no list")
    return listed


def _text(index: int, value: Any) -> str:
    if not isinstance(value, str):
        raise BrokenScoresError(f"logprobs: a token of entry {index} is {value!r}, no string")
    return value


def _count(index: int, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BrokenScoresError(f"logprobs: text_offset of entry {index} is {value!r}, no count")
    return value


def _number(index: int, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -math.inf < value <= 0:
        raise BrokenScoresError(f"logprobs: a logprob of entry {index} is {value!r}; want a number not above 0")
    return float(value)
