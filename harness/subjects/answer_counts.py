"""Single counts of an answer, wherever its engine puts them: keys joined by dots, as a description names them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.records.recording import Counts, Reply, Round
from harness.subjects import counts
from harness.subjects.counts import CountsError, is_count
from harness.subjects.tables import AnswerCounts


def read(body: Any, fields: AnswerCounts, reply: Reply, *, may_lack: bool) -> Counts | None:
    """Return what a body says was drafted for `reply`.

    All of it missing means that nothing was, where it `may_lack`; else that it was not told: None. Raises CountsError.
    """
    named = {"drafted": fields.drafted, "accepted": fields.accepted, "rounds": fields.rounds}
    found = {name: _found(body, path) for name, path in named.items() if path}
    lacking = [name for name, value in found.items() if value is None]
    if lacking and len(lacking) < len(found):
        raise CountsError(f"answer: {named[lacking[0]]} is missing, and others are there")
    if lacking and not may_lack:
        return None
    values = {name: 0 if lacking else _count(named[name], value) for name, value in found.items()}
    if reply.completion_tokens is None:
        raise CountsError("answer: usage.completion_tokens is missing, so its counts are of no number of tokens")
    return Counts(
        path="spec" if values["drafted"] else "plain",
        drafter=None,
        rounds=values.get("rounds"),
        drafted=values["drafted"],
        accepted=values["accepted"],
        plain=None,
        tokens=reply.completion_tokens,
        cached=reply.cached_tokens,
        fallback=None,
        reason=None,
    )


def read_rounds(body: Any, fields: AnswerCounts) -> tuple[Round, ...] | None:
    """Return what a body lists round by round: ids proposed, and how many of them were kept. Raises CountsError."""
    listed = _found(body, fields.per_round) if fields.per_round else None
    return None if listed is None else counts.read_rounds(listed)


def _found(body: Any, path: str) -> Any:
    """Return what stands at keys joined by dots; None where one of them is missing, or null."""
    value = body
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _count(path: str, value: Any) -> int:
    if not is_count(value):
        raise CountsError(f"answer: {path}={value!r} is no count")
    return int(value)
