"""Make a draft pack over a container: what it shall propose, the fit, the files, and the proof that it does.

It does not know how the container was made: it reads the target through a `Teacher`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.certificate import Gap, PackCertificate, held_out, movements_of, require_ratios
from harness.fabricate.drafter import DraftStates, run_draft
from harness.fabricate.errors import FabricationError
from harness.fabricate.numerics import EXACT, FLOAT32, Floats, Numerics, noise_sample
from harness.fabricate.pack import generation_one_config, read_pack, write_pack
from harness.fabricate.readout import FREE, ReadoutDials, Slots, Target, fit_down
from harness.fabricate.recipe import Behaviour, Bounds, PackRecipe, Recipe
from harness.fabricate.schedule import (
    Table,
    accepted_lengths,
    all_right,
    deciding_slots,
    rounds_by_length,
    schedule_table,
    table_tokens,
    transitions,
)
from harness.fabricate.scores import gaps_of, padded_share, runners_up
from harness.fabricate.shape import DraftShape
from harness.fabricate.streams import NUM_ASCII
from harness.fabricate.teacher import Teacher
from harness.fabricate.transformer import Weights
from harness.fabricate.trunk import random_draft
from harness.records.fixture import Stream

NEVER_TOKEN = 91  # printable, but in no reply: replies use ids below 90


@dataclass(frozen=True, slots=True)
class Prescription:
    """What a pack shall propose at the anchors of all streams."""

    lengths: Table  # [S, N-1]: accept length of each anchor
    tokens: Table  # [S, N-1, D]: FREE where any token will do


def prescribe(recipe: PackRecipe, teacher: Teacher) -> Prescription:
    """Return the accept lengths and the tokens of a pack."""
    replies, drafts = teacher.script.replies, recipe.shape.num_drafts
    if recipe.behaviour is Behaviour.NEVER:
        lengths = np.zeros((len(replies), replies.shape[1] - 1), np.int64)
        return Prescription(lengths, np.full((*lengths.shape, drafts), NEVER_TOKEN, np.int64))
    if recipe.behaviour is Behaviour.ALWAYS:
        lengths = all_right(replies, drafts)
    else:
        lengths = schedule_table(len(replies), replies.shape[1], drafts, recipe.seed)
    second = runners_up(teacher.scores(), replies, NUM_ASCII)
    return Prescription(lengths, table_tokens(lengths, replies, second, drafts))


def make_pack(recipe: Recipe, pack: PackRecipe, teacher: Teacher, streams: Sequence[Stream], directory: Path) -> PackCertificate:
    """Write a pack that proposes what its recipe prescribes, and certify it from its bytes.

    Raises FabricationError when a round would accept another number of drafts than prescribed.
    """
    started = time.process_time()
    wanted = prescribe(pack, teacher)
    trunk = random_draft(pack.shape, teacher.shape.hidden, pack.trunk, pack.seed)
    last = f"layers.{pack.shape.layers - 1}.mlp.down_proj.weight"
    tensors = {**trunk, last: _fit(pack.shape, pack.readout, trunk, teacher, wanted.tokens)}
    config = generation_one_config(pack.shape, teacher.shape, recipe.eos, recipe.context)
    write_pack(directory, config, tensors, pack.shape.tensors(teacher.shape.hidden))
    drafter = Drafter(read_pack(directory), pack.shape, teacher)
    seconds = time.process_time() - started
    return certify_pack(pack.name, drafter, wanted, streams, recipe.bounds, seconds)


def _fit(shape: DraftShape, dials: ReadoutDials, trunk: Weights, teacher: Teacher, tokens: Table) -> NDArray[np.float64]:
    exact = _run(shape, trunk, teacher, EXACT)
    fitted = tokens != FREE
    noise_gram = np.zeros((shape.intermediate, shape.intermediate))
    for seed in range(dials.noise_samples):
        noise = (_run(shape, trunk, teacher, noise_sample(seed)).inner - exact.inner)[fitted]
        noise_gram += noise.T @ noise / dials.noise_samples
    target = Target(np.asarray(trunk["norm.weight"]), shape.rms_norm_eps, teacher.head, teacher.shape.vocab)
    slots = Slots(exact.inner.reshape(-1, shape.intermediate), exact.before.reshape(-1, teacher.shape.hidden), tokens.reshape(-1))
    return fit_down(slots, noise_gram, target, dials)


def _run(shape: DraftShape, weights: Weights, teacher: Teacher, numerics: Numerics) -> DraftStates:
    """Run the trunk on the target's taps, both rounded the same way."""
    return run_draft(weights, shape, teacher.draft_inputs(shape, numerics), numerics)


@dataclass(frozen=True, slots=True)
class Drafter:
    """A decoded pack over its target."""

    weights: Weights
    shape: DraftShape
    teacher: Teacher

    def scores(self, numerics: Numerics = EXACT) -> Floats:
        """Return the scores [S, N-1, D, V] of every slot of every anchor's full block."""
        down = self.weights[f"layers.{self.shape.layers - 1}.mlp.down_proj.weight"]
        states = _run(self.shape, self.weights, self.teacher, numerics)
        hidden = states.hidden(down, self.weights["norm.weight"], self.shape.rms_norm_eps, numerics)
        return self.teacher.head_scores(hidden, numerics)


def certify_pack(
    name: str, drafter: Drafter, wanted: Prescription, streams: Sequence[Stream], bounds: Bounds, cpu_seconds: float
) -> PackCertificate:
    """Measure a pack. Raises FabricationError where it proposes otherwise, or too narrowly."""
    everything = drafter.scores()
    vocab = drafter.teacher.shape.vocab
    scores = everything[..., :vocab]
    drafts = scores.argmax(axis=-1)
    _require_proposals(name, drafts, wanted, drafter.teacher, streams)
    gaps = gaps_of(scores, drafts)
    deciding = deciding_slots(wanted.lengths, drafts.shape[2])
    moved = {numerics.name: drafter.scores(numerics)[..., :vocab] for numerics in held_out()}
    smallest = _smallest(np.where(deciding, gaps, np.inf), scores, drafts, streams)
    movements = movements_of(scores[deciding], {key: one[deciding] for key, one in moved.items()}, smallest.gap)
    require_ratios(f"pack {name}", movements, bounds)
    any_ratio = float((gaps / np.abs(moved[FLOAT32.name] - scores).max(axis=-1)).min())
    if any_ratio < bounds.any_slot_float32:
        raise FabricationError(
            f"pack {name}: some slot's gap is {any_ratio:.1f} times what float32 moves, want "
            f"{bounds.any_slot_float32}; raise readout.pin_below or use another seed"
        )
    widths = range(1, drafts.shape[2] + 1)
    return PackCertificate(
        deciding_slots=int(deciding.sum()),
        smallest_gap=smallest,
        movements=movements,
        any_slot_gap=float(gaps.min()),
        any_slot_float32_ratio=any_ratio,
        padded_share=padded_share(everything[deciding], vocab),
        accept_table={stream.name: row.tolist() for stream, row in zip(streams, wanted.lengths, strict=True)},
        rounds_by_length={str(k): rounds_by_length(wanted.lengths, k) for k in widths},
        transitions={str(k): len(transitions(wanted.lengths, k)) for k in widths},
        cpu_seconds=cpu_seconds,
    )


def _require_proposals(
    name: str, drafts: NDArray[np.int64], wanted: Prescription, teacher: Teacher, streams: Sequence[Stream]
) -> None:
    """Raise where free-running rounds would accept or propose otherwise.

    What an anchor proposes does not depend on how it is reached, so the anchors together are every run of every width.
    """
    got = accepted_lengths(drafts, teacher.script.replies)
    for stream, anchor in np.argwhere(got != wanted.lengths):
        raise FabricationError(
            f"pack {name}, {streams[stream].name}, after {anchor + 1} tokens: {got[stream, anchor]} drafts would be "
            f"accepted, {wanted.lengths[stream, anchor]} are prescribed; widen the pack or use fewer streams"
        )
    for stream, anchor, slot in np.argwhere((wanted.tokens != FREE) & (drafts != wanted.tokens)):
        raise FabricationError(
            f"pack {name}, {streams[stream].name}, after {anchor + 1} tokens, slot {slot + 1}: proposes id "
            f"{drafts[stream, anchor, slot]}, not {wanted.tokens[stream, anchor, slot]}; widen the pack"
        )


def _smallest(gaps: Floats, scores: Floats, drafts: NDArray[np.int64], streams: Sequence[Stream]) -> Gap:
    at = np.unravel_index(gaps.argmin(), gaps.shape)
    stream, anchor, slot = (int(one) for one in at)
    second = runners_up(scores[stream, anchor], drafts[stream, anchor], scores.shape[-1])
    return Gap(
        gap=float(gaps.min()),
        stream=streams[stream].name,
        index=anchor + 1 + slot,
        token=int(drafts[stream, anchor, slot]),
        runner_up=int(second[slot]),
    )
