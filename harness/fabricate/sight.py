"""What the recipe's streams and packs would show of faults: in the cache, in a reader of packs, in prompt lookup.

A certified margin says that nothing but a fault can change an answer; this says that a fault does change one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.fabricate.errors import BoundError
from harness.fabricate.history import HistoryCertificate, certify_history
from harness.fabricate.lookup import Rule, first_shown, text_of
from harness.fabricate.recipe import Sight
from harness.fabricate.sensitivity import Shown
from harness.fabricate.teacher import Teacher
from harness.records.fixture import Stream


class SightCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where planted faults show. What the recipe does not ask for is None or empty."""

    history: HistoryCertificate | None = None
    packs: dict[str, dict[str, Shown]] = {}  # pack -> fault of a reader -> where
    lookup: dict[str, dict[str, dict[str, int]]] = {}  # draft length -> wrong rule -> stream -> round from 0


def history_of(sight: Sight, teacher: Teacher, streams: Sequence[Stream]) -> HistoryCertificate | None:
    """Return what faults in the cache would show, None where none are asked for. Raises BoundError where too few do."""
    return None if sight.history is None else certify_history(teacher, streams, sight.history)


def lookup_of(sight: Sight, streams: Sequence[Stream]) -> dict[str, dict[str, dict[str, int]]]:
    """Return where wrong rules of lookup would show at the draft lengths asked for. Raises BoundError where one does not."""
    return {str(k): _lookup(k, streams) for k in sight.lookup}


def _lookup(k: int, streams: Sequence[Stream]) -> dict[str, dict[str, int]]:
    """Return where each wrong rule proposes other ids than the right one."""
    found: dict[str, dict[str, int]] = {}
    for rule in Rule:
        if rule is Rule.RIGHT:
            continue
        places = {one.name: first_shown(text_of(one.prompt_ids), text_of(one.reply_ids), k, rule) for one in streams}
        found[rule.name.lower().replace("_", "-")] = {name: place for name, place in places.items() if place is not None}
    for name, shown in found.items():
        if not shown:
            raise BoundError(f"sight.lookup={k}: no stream shows {name}; add a stream of kind hit")
    return found
