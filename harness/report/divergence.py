"""A divergence as lines of text: the place, both sides, the gap, and the path that led there. Everything a subject said is escaped."""

from __future__ import annotations

from collections.abc import Iterator

from harness.records.divergence import Divergence, Gap, GapSource, Side, Spot, Unit
from harness.records.recording import Round
from harness.report.escape import printable

MOST_SHARED = 24  # tokens or characters of the shared beginning that are shown, the last ones


def divergence_lines(divergence: Divergence) -> Iterator[str]:
    """Yield what a person wants to know of the first place at which a reply differs."""
    unit = divergence.unit.value.removesuffix("s")
    yield f"first differing {unit} {divergence.index}, behind {_shared(divergence)}"
    yield f"  want {_side(divergence.want, divergence.unit)}"
    yield f"  got  {_side(divergence.got, divergence.unit)}"
    yield f"  plain's best two there: {_gap(divergence.gap) if divergence.gap else f'not known ({divergence.gap_unknown})'}"
    yield f"  committed by {_spot(divergence.spot, divergence.taken, divergence.spot_unknown)}"
    yield f"  predicted by {_spot(divergence.predicted_spot, divergence.predicted, divergence.predicted_unknown)}"


def _shared(divergence: Divergence) -> str:
    if divergence.unit is Unit.CHARACTERS:
        return f"{divergence.index} equal ones: {_tail(divergence.shared_text)}"
    ids = divergence.shared_ids
    told = " ".join(map(str, ids[-MOST_SHARED:]))
    cut = "... " if len(ids) > MOST_SHARED else ""
    return f"{len(ids)} equal ones: {cut}{told} {_tail(divergence.shared_text)}" if ids else "none that is equal"


def _tail(text: str) -> str:
    return _quoted(text if len(text) <= MOST_SHARED else f"...{text[-MOST_SHARED:]}")


def _side(side: Side, unit: Unit) -> str:
    if unit is Unit.CHARACTERS:
        return (
            f"{_quoted(side.text)} of {side.length} characters"
            if side.text
            else f"nothing: it ends with {side.length} characters"
        )
    if not side.ids:
        return f"nothing: it ends with {side.length} tokens"
    return f"id {' '.join(map(str, side.ids))} {_quoted(side.text)} of {side.length} tokens"


def _gap(gap: Gap) -> str:
    name = "id " if gap.source is GapSource.FORWARD else ""
    first, second = (one if name else _quoted(one) for one in (gap.first, gap.second))
    behind = "" if gap.got_behind is None else f"; what was got is {gap.got_behind:.4g} behind the first"
    return f"{name}{first} leads {name}{second} by {gap.size:.4g} ({gap.source.value}){behind}"


def _spot(spot: Spot | None, one: Round | None, unknown: str) -> str:
    if spot is None:
        return f"a round that is not known ({printable(unknown)})"
    if spot.round is None or one is None:
        return "no round: a plain step, or the last token, which no pass ran"
    slot = "the base's own choice" if spot.slot == 0 else f"draft {spot.slot}"
    drafts = " ".join(map(str, one.drafted_ids)) or "none"
    return f"round {spot.round}, slot {spot.slot} ({slot}); its drafts {drafts}, {one.num_accepted} accepted"


def _quoted(text: str) -> str:
    return f"'{printable(text)}'"
