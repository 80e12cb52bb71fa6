"""What the recipe's streams and packs would show of faults: in the cache, in a reader of packs, in prompt lookup.

A certified margin says that nothing but a fault can change an answer; this says that a fault does change one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from harness.fabricate.errors import FabricationError
from harness.fabricate.history import HistoryCertificate, certify_history
from harness.fabricate.lookup import Rule, first_shown, text_of
from harness.fabricate.pack_certificate import Drafter
from harness.fabricate.prescription import Prescription
from harness.fabricate.recipe import Sight
from harness.fabricate.sensitivity import Shown, planted, require_shown
from harness.fabricate.teacher import Teacher
from harness.records.fixture import Stream


class SightCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where planted faults show. What the recipe does not ask for is None or empty."""

    history: HistoryCertificate | None = None
    packs: dict[str, dict[str, Shown]] = {}  # pack -> fault of a reader -> where
    lookup: dict[str, dict[str, dict[str, int]]] = {}  # draft length -> wrong rule -> stream -> round from 0


def certify_sight(
    sight: Sight, teacher: Teacher, streams: Sequence[Stream], packs: Mapping[str, tuple[Drafter, Prescription]]
) -> SightCertificate:
    """Plant what the recipe asks for. Raises FabricationError where a fault shows nowhere, or too few of a kind do."""
    history = None if sight.history is None else certify_history(teacher, streams, sight.history)
    shown = {name: planted(name, packs[name][0], packs[name][1].lengths, streams) for name in sight.packs}
    require_shown(shown, sight.blind)
    return SightCertificate(history, shown, {str(k): _lookup(k, streams) for k in sight.lookup})


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
            raise FabricationError(f"sight.lookup={k}: no stream shows {name}; add a stream of kind hit")
    return found
