"""What a pack is certified for: what it proposes at every anchor, by how much, and how far rounding moves that.

Measured on tensors decoded from the written bytes, over the written container. It does not know how the pack was fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.aim import FREE
from harness.fabricate.choice import Choices, Selector, Tokens, choose
from harness.fabricate.draft_shape import DraftShape
from harness.fabricate.drafter import run_draft
from harness.fabricate.errors import BoundError
from harness.fabricate.margins import Gap, held_out, require_ratio
from harness.fabricate.numerics import EXACT, FLOAT32, Floats, Numerics
from harness.fabricate.prescription import Prescription
from harness.fabricate.recipe import Bounds
from harness.fabricate.schedule import accepted_lengths, deciding_slots, rounds_by_length, transitions
from harness.fabricate.scores import padded_share
from harness.fabricate.teacher import Teacher
from harness.fabricate.transformer import Weights
from harness.records.fixture import Stream


class PackMovement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far one way of rounding moves candidates' scores and all logits, and how often that fits into the narrowest draft.

    The unit of a draft's margin over another id is how far the score of either of the two moves at most, at any deciding slot; that
    of a cut between two ids, how far the logit of either does.
    """

    largest_score: float
    largest_logit: float
    ratio: float


class PackCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The certificate of one pack: over slots 1 .. accepted+1 of every anchor, unless it says any slot."""

    deciding_slots: int
    smallest_gap: Gap  # to the next best candidate
    smallest_cut: float | None  # how far logits are from letting the draft out or a better one in; None = nothing is cut
    movements: dict[str, PackMovement]
    any_slot_float32_ratio: float  # the unit being what the slot's own scores and logits move
    selected_share: float  # of deciding slots where the selector chooses another id than the best logit's
    padded_share: float
    accept_table: dict[str, list[int]]  # stream -> accept length at the anchors after 1 .. N-1 tokens, full blocks
    rounds_by_length: dict[str, list[int]]  # draft length k -> how many rounds of all streams accept 0 .. k
    transitions: dict[str, int]  # draft length k -> different pairs of accept lengths in successive rounds
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Drafter:
    """A decoded pack over its target."""

    weights: Weights
    shape: DraftShape
    teacher: Teacher

    def scores(self, hidden: Floats, numerics: Numerics = EXACT) -> Floats:
        """Return the logits [N, D, V] of hidden rows, padded rows included."""
        return self.teacher.head_scores(hidden, numerics.of_drafter)

    def hidden(self, numerics: Numerics = EXACT) -> Floats:
        """Return the final hidden rows [N, D, H] of every anchor's full block, anchors of all streams in one list."""
        own, inputs = numerics.of_drafter, self.teacher.draft_inputs(self.shape, numerics)
        states = run_draft(self.weights, self.shape, inputs, own)
        hidden = states.hidden(self.weights[self.shape.last_down], self.weights["norm.weight"], self.shape.rms_norm_eps, own)
        return hidden.reshape(-1, *hidden.shape[2:])

    def choices(self, numerics: Numerics = EXACT, follow: Tokens | None = None) -> Choices:
        """Return what is drafted; with `follow` each slot is taken to say that token, to compare scores slot by slot."""
        hidden = self.hidden(numerics)
        logits = self.scores(hidden, numerics)[..., : self.teacher.shape.vocab]
        return choose(
            Selector.of(self.weights, self.shape), hidden, logits, self.teacher.script.replies[:, :-1].reshape(-1), follow
        )


def certify_pack(
    name: str, drafter: Drafter, wanted: Prescription, streams: Sequence[Stream], bounds: Bounds, cpu_seconds: float
) -> PackCertificate:
    """Measure a pack. Raises BoundError where it proposes otherwise, or too narrowly."""
    choices = drafter.choices()
    _require_proposals(name, choices.drafts.reshape(*wanted.lengths.shape, -1), wanted, drafter.teacher, streams)
    deciding = deciding_slots(wanted.lengths, choices.drafts.shape[1]).reshape(choices.drafts.shape)
    moves = {numerics.name: _moves(choices, drafter.choices(numerics, choices.drafts)) for numerics in held_out()}
    movements = {key: _movement(choices, deciding, *move) for key, move in moves.items()}
    for key, bound in bounds.by_rounding.items():
        require_ratio(f"pack {name}", key, movements[key].ratio, bound)
    scores, logits = moves[FLOAT32.name]
    any_ratio = float(choices.margins(scores.max(axis=-1, keepdims=True), logits.max(axis=-1, keepdims=True)).min())
    require_ratio(f"pack {name}, any slot", FLOAT32.name, any_ratio, bounds.any_slot_float32)
    selected = float(np.mean((choices.lead() > 0)[deciding]))
    if wanted.selected and selected < 1:
        raise BoundError(f"pack {name}: the selector decides {selected:.4f} of the slots, want all; widen the pack")
    widths = range(1, choices.drafts.shape[1] + 1)
    return PackCertificate(
        deciding_slots=int(deciding.sum()),
        smallest_gap=_smallest_gap(choices, deciding, streams, wanted.lengths.shape[1]),
        smallest_cut=_smallest_cut(choices, deciding),
        movements=movements,
        any_slot_float32_ratio=any_ratio,
        selected_share=selected,
        padded_share=padded_share(drafter.scores(drafter.hidden())[deciding], drafter.teacher.shape.vocab),
        accept_table={stream.name: row.tolist() for stream, row in zip(streams, wanted.lengths, strict=True)},
        rounds_by_length={str(k): rounds_by_length(wanted.lengths, k) for k in widths},
        transitions={str(k): len(transitions(wanted.lengths, k)) for k in widths},
        cpu_seconds=cpu_seconds,
    )


def _moves(choices: Choices, moved: Choices) -> tuple[Floats, Floats]:
    """Return how far scores and logits [N, D, V] are moved."""
    return np.abs(moved.scores - choices.scores), np.abs(moved.logits - choices.logits)


def _movement(choices: Choices, deciding: NDArray[np.bool_], scores: Floats, logits: Floats) -> PackMovement:
    ratios = choices.margins(scores[deciding].max(axis=0), logits[deciding].max(axis=0))
    candidates = deciding[..., None] & choices.inside
    return PackMovement(float(scores[candidates].max()), float(logits[deciding].max()), float(ratios[deciding].min()))


def _smallest_cut(choices: Choices, deciding: NDArray[np.bool_]) -> float | None:
    if choices.inside.all():
        return None
    better = np.where(choices.beaten() < 0, choices.behind(), np.inf).min(axis=-1)
    return float(np.minimum(choices.stays_in(), better)[deciding].min())


def _require_proposals(name: str, drafts: Tokens, wanted: Prescription, teacher: Teacher, streams: Sequence[Stream]) -> None:
    """Raise where free-running rounds would accept or propose otherwise.

    What an anchor proposes does not depend on how it is reached, so the anchors together are every run of every width.
    """
    got = accepted_lengths(drafts, teacher.script.replies)
    for stream, anchor in np.argwhere(got != wanted.lengths):
        raise BoundError(
            f"pack {name}, {streams[stream].name}, after {anchor + 1} tokens: {got[stream, anchor]} drafts would be "
            f"accepted, {wanted.lengths[stream, anchor]} are prescribed; widen the pack or use fewer streams"
        )
    for stream, anchor, slot in np.argwhere((wanted.tokens != FREE) & (drafts != wanted.tokens)):
        raise BoundError(
            f"pack {name}, {streams[stream].name}, after {anchor + 1} tokens, slot {slot + 1}: proposes id "
            f"{drafts[stream, anchor, slot]}, not {wanted.tokens[stream, anchor, slot]}; widen the pack"
        )


def _smallest_gap(choices: Choices, deciding: NDArray[np.bool_], streams: Sequence[Stream], anchors: int) -> Gap:
    gaps = np.where(choices.inside, choices.beaten(), np.inf).min(axis=-1)
    block, slot = (int(at) for at in np.unravel_index(np.where(deciding, gaps, np.inf).argmin(), gaps.shape))
    return Gap(
        gap=float(gaps[block, slot]),
        stream=streams[block // anchors].name,
        index=block % anchors + 1 + slot,
        token=int(choices.drafts[block, slot]),
        runner_up=int(choices.seconds[block, slot]),
    )
