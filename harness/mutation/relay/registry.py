"""Faults by the names that the catalogue gives them. Strict: an unknown name or parameter is a ValueError that names it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from harness.mutation.relay import counts, devices, replies, requests, streams
from harness.mutation.relay.fault import Fault, When

NAME, WHEN = "fault", "when"

FAULTS: Mapping[str, type[Fault]] = {
    "nothing": Fault,
    "token-doubled": replies.DoubledToken,
    "token-dropped": replies.DroppedToken,
    "token-extra": replies.ExtraToken,
    "token-repeated": replies.RepeatedToken,
    "finish-other": replies.OtherFinish,
    "stop-reason-missing": replies.NoStopReason,
    "text-lost": replies.LostText,
    "text-held-back-lost": replies.LostTail,
    "usage-wrong": replies.WrongUsage,
    "reply-stale": replies.StaleReply,
    "reply-of-a-neighbour": replies.NeighboursToken,
    "reply-left-behind": replies.LeftBehind,
    "scores-wrong": replies.WrongScores,
    "bad-body-served": replies.BadBodyServed,
    "counts-set": counts.SetCounts,
    "counts-added": counts.AddedCounts,
    "counts-width-times-rounds": counts.WidthTimesRounds,
    "counts-plain": counts.PlainCounts,
    "rounds-shifted": counts.ShiftedRounds,
    "rounds-capped": counts.CappedRounds,
    "line-times": counts.OtherLines,
    "metrics-frozen": counts.FrozenMetrics,
    "stream-tail-lost": streams.LostTail,
    "stream-chunk-doubled": streams.DoubledChunk,
    "stream-half-characters": streams.HalfCharacters,
    "stream-gathered": streams.Gathered,
    "stream-finish-doubled": streams.DoubledFinish,
    "stream-finish-lost": streams.LostFinish,
    "stream-shown-behind-finish": streams.ShownBehindFinish,
    "fields-dropped": requests.DroppedFields,
    "fields-forced": requests.ForcedFields,
    "seed-moved": requests.MovedSeed,
    "request-kept": requests.KeptRequest,
    "device-opened": devices.ExtraOpen,
    "device-submitted": devices.ExtraSubmit,
}


def build(table: Mapping[str, Any]) -> Fault:
    """Return the fault of one table: `fault`, `when`, and its parameters. Raises ValueError."""
    name = str(table.get(NAME, ""))
    if name not in FAULTS:
        raise ValueError(f"fault={name!r} is unknown; use one of {', '.join(FAULTS)}")
    kind = FAULTS[name]
    given = {key: value for key, value in table.items() if key not in (NAME, WHEN)}
    return kind(when=_filled(When, table.get(WHEN, {}), WHEN), **_checked(kind, given, name))


def _filled(kind: type[When], given: Mapping[str, Any], place: str) -> When:
    return kind(**_checked(kind, given, place))


def _checked(kind: type[Any], given: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return values for a dataclass, lists as tuples. Raises ValueError for one that it has not, or of another type."""
    fields = {one.name: one for one in dataclasses.fields(kind) if one.init and one.name != WHEN}
    values = {}
    for name, value in given.items():
        if name not in fields:
            raise ValueError(f"{place}: {name} is unknown; use of {', '.join(fields) or 'none'}")
        taken = tuple(value) if isinstance(value, list) else value
        wanted = _type_of(fields[name])
        if not isinstance(taken, wanted) or (isinstance(taken, bool) and wanted is int):
            raise ValueError(f"{place}: {name}={value!r} is no {wanted.__name__}")
        values[name] = taken
    return values


def _type_of(one: dataclasses.Field[Any]) -> type[Any]:
    """Return the type of a parameter: its default's; one without a default value is a condition."""
    if one.default_factory is not dataclasses.MISSING:
        return type(one.default_factory())
    return bool if one.default is None else type(one.default)
