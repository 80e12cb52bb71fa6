"""What drafts would show of faults in their reader: each is planted in the fabricator's own drafter, over the plan's streams.

The unfaulted drafter runs first, and must propose what the pack was certified for: it is a second way to compute that. It does
not know which check reads ids or counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from harness.fabricate.block_faults import BLOCK_FAULTS
from harness.fabricate.choice_faults import CHOICE_FAULTS
from harness.fabricate.context_faults import CONTEXT_FAULTS
from harness.fabricate.conv_faults import CONV_FAULTS
from harness.fabricate.errors import FabricationError, UnshownError
from harness.fabricate.pack_certificate import Drafter
from harness.fabricate.round_choice import Ids, RoundChoice
from harness.fabricate.round_trunk import RoundTrunk
from harness.fabricate.rounds import Rounds, Rows, take_rounds
from harness.fabricate.shape import EMBEDDING
from harness.records.fixture import Stream

TRUNKS: tuple[type[RoundTrunk], ...] = (*CONTEXT_FAULTS, *BLOCK_FAULTS, *CONV_FAULTS)
NORM = "model.norm.weight"
Fault = type[RoundTrunk] | type[RoundChoice]


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A round of the widest drafts: which stream's, and its place among that stream's rounds from 0."""

    stream: str
    round: int


class Shown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a fault first proposes other ids, and where it first gets another number of them accepted; None = nowhere."""

    ids: Place | None = None
    counts: Place | None = None


def name_of(fault: Fault) -> str:
    """Return a fault's name: that of its class, with dashes."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", fault.__name__).lower()


def planted(name: str, drafter: Drafter, lengths: Ids, streams: Sequence[Stream]) -> dict[str, Shown]:
    """Plant every fault that applies to a pack, and return where each first shows; `lengths` [S, N-1] are its accept lengths.

    Raises FabricationError where the two unfaulted drafters disagree.
    """
    positions = drafter.teacher.script.inputs.shape[1]
    faults: list[Fault] = [one for one in TRUNKS if one.applies(drafter.shape, positions)]
    faults += [one for one in CHOICE_FAULTS if one.applies(drafter.shape, positions)]
    shown = {name_of(fault): Shown() for fault in faults}
    drafts = drafter.choices().drafts.reshape(*lengths.shape, -1)
    for number, stream in enumerate(streams):
        rounds = take_rounds(drafter.teacher, number, stream.name, lengths[number], drafts[number])
        bench = _Bench(drafter, rounds, stream)
        if bench.first_difference(bench.trunk.hidden(), bench.choice).ids is not None:
            raise FabricationError(
                f"pack {name}, {stream.name}: two ways to run it draft differently; this is a fault of the fabricator"
            )
        for fault in faults:
            seen = shown[name_of(fault)]
            if seen.ids is None or seen.counts is None:
                found = bench.plant(fault)
                shown[name_of(fault)] = Shown(seen.ids or found.ids, seen.counts or found.counts)
    return shown


def require_shown(packs: Mapping[str, Mapping[str, Shown]], exempt: Collection[str]) -> None:
    """Raise UnshownError where a fault that applies to some pack changes no id on any; FabricationError where an exempt one is unknown."""
    unknown = sorted(set(exempt) - {*map(name_of, TRUNKS), *map(name_of, CHOICE_FAULTS)})
    if unknown:
        raise FabricationError(f"sight.blind: {', '.join(unknown)} are no faults of a reader")
    names = {fault for shown in packs.values() for fault in shown} - set(exempt)
    blind = sorted(fault for fault in names if not any(fault in shown and shown[fault].ids for shown in packs.values()))
    if blind:
        applies = next(name for name, shown in packs.items() if blind[0] in shown)
        raise UnshownError(f"sight.packs={list(packs)}: no pack shows {', '.join(blind)}; add one or use another seed", applies)


class _Bench:
    """One stream's rounds, with the unfaulted drafter on them."""

    def __init__(self, drafter: Drafter, rounds: Rounds, stream: Stream) -> None:
        self.drafter, self.rounds = drafter, rounds
        teacher = drafter.teacher
        self.trunk = self._trunk(RoundTrunk)
        self.choice = RoundChoice(drafter.weights, drafter.shape, teacher.head, teacher.shape.vocab)
        self.hidden = self.trunk.hidden()
        self.said = stream.prompt_ids + stream.reply_ids

    def _trunk(self, kind: type[RoundTrunk]) -> RoundTrunk:
        target = self.drafter.teacher.weights
        return kind(self.drafter.weights, self.drafter.shape, target[EMBEDDING], target[NORM], self.rounds)

    def plant(self, fault: Fault) -> Shown:
        """Return where a fault shows in this stream."""
        if issubclass(fault, RoundTrunk):
            return self.first_difference(self._trunk(fault).hidden(), self.choice)
        teacher = self.drafter.teacher
        choice = fault(self.drafter.weights, self.drafter.shape, teacher.head, teacher.shape.vocab)
        return self.first_difference(self.hidden, choice)

    def first_difference(self, hidden: Rows, choice: RoundChoice) -> Shown:
        """Return where drafts differ from those of the rounds, and where the number accepted does.

        As long as the same number is accepted, the rounds are those that the fault takes by itself.
        """
        drafts = choice.drafts(hidden, self.rounds.anchors)
        ids = counts = None
        for place, (one, row) in enumerate(zip(self.rounds.rounds, drafts, strict=True)):
            proposed = tuple(map(int, row[: len(one.drafts)]))
            if ids is None and proposed != one.drafts:
                ids = Place(self.rounds.stream, place)
            if counts is None and _num_right(proposed, self.said[one.start + 1 :]) != one.accepted:
                counts = Place(self.rounds.stream, place)
        return Shown(ids, counts)


def _num_right(proposed: Sequence[int], coming: Sequence[int]) -> int:
    right = [one == other for one, other in zip(proposed, coming, strict=False)]
    return right.index(False) if False in right else len(right)
