"""Counters that a subject adds up over its life, as Prometheus text: what one request added is the difference around it.

They are process-wide, so a difference belongs to a request only where it was the only one. It knows no counter's meaning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from harness.records.recording import Counts, Reply
from harness.subjects.counts import CountsError
from harness.subjects.tables import MetricsSource

_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{[^}]*\})? (?P<value>\S+)")


def read_metrics(text: str, source: MetricsSource, may_lack: Collection[str] = ()) -> Mapping[str, int]:
    """Return the counters that `source` names; one that `may_lack` names is 0 where it is missing.

    Raises CountsError for one that is missing, doubled or no whole number.
    """
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        sample = _SAMPLE.fullmatch(line.strip())
        if sample:
            found.setdefault(sample["name"], []).append(sample["value"])
    none = {name: ["0"] for name in may_lack}
    return {name: _whole(name, (none | found).get(name, [])) for name in source.names}


def difference(before: Mapping[str, int], after: Mapping[str, int], source: MetricsSource, reply: Reply) -> Counts:
    """Return the counts of what came between two readings, which was this reply alone.

    An end token is in no reply; tokens that no counter counts are the reply's own. Raises CountsError for a counter that went back.
    """
    added = {name: after[name] - before[name] for name in source.names if name != source.busy}
    for name, value in added.items():
        if value < 0:
            raise CountsError(f"metrics: {name} went back by {-value}")
    drafted, num_end_tokens = added[source.drafted], isinstance(reply.stop_reason, int)
    tokens = added[source.tokens] - num_end_tokens if source.tokens else reply.completion_tokens
    if tokens is None:
        raise CountsError("metrics: they count no tokens, and neither does the answer")
    return Counts(
        path="spec" if drafted else "plain",
        drafter=None,
        rounds=added[source.rounds] if source.rounds else None,
        drafted=drafted,
        accepted=added[source.accepted],
        plain=None,
        tokens=tokens,
        cached=added[source.cached] if source.cached else None,
        fallback=None,
        reason=None,
    )


def _whole(name: str, values: list[str]) -> int:
    if len(values) != 1:
        raise CountsError(f"metrics: {name} is there {len(values)} times; want once")
    try:
        number = float(values[0])
    except ValueError as error:
        raise CountsError(f"metrics: {name} {values[0]!r} is no number") from error
    if not number.is_integer() or number < 0:
        raise CountsError(f"metrics: {name} {values[0]!r} is no count")
    return int(number)
