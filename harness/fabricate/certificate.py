"""What a fabricated container and its packs are certified for: gaps, and how far rounding moves them.

A certificate is measured on weights decoded from the written bytes. It belongs to the files beside it: fabricated on
another machine, a container gets a certificate of its own. The forward here is the fabricator's; a second one, that
shares nothing with it, is the business of the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.errors import FabricationError
from harness.fabricate.numerics import BF16, FLOAT32, HARSH, Numerics, noise_sample
from harness.fabricate.recipe import Bounds
from harness.fabricate.scores import gaps_of, largest_movement, padded_share, runners_up
from harness.fabricate.teacher import Teacher
from harness.records.fixture import Stream

FILE_NAME = "certificate.json"
_HELD_OUT_SEED = 1 << 20  # no noise sample that anything is fitted on has such a seed


class Movement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far one way of rounding moves any score, and how often that fits into the smallest gap."""

    largest: float
    ratio: float


class Gap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The smallest gap between the best and the second score over the tokenizer's ids, and where it is."""

    gap: float
    stream: str
    index: int  # of the reply token that is decided there; packs: of the token at the slot
    token: int
    runner_up: int


class ModelCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The container's certificate."""

    states: int
    smallest_gap: Gap
    movements: dict[str, Movement]
    padded_share: float  # of states where a row that no id owns wins unbounded
    distinct_tokens: dict[str, int]  # stream -> different ids in its reply
    num_flips: int
    cpu_seconds: float


class PackCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The certificate of one pack: over slots 1 .. accepted+1 of every anchor, unless it says any slot."""

    deciding_slots: int
    smallest_gap: Gap
    movements: dict[str, Movement]
    any_slot_gap: float
    any_slot_float32_ratio: float
    padded_share: float
    accept_table: dict[str, list[int]]  # stream -> accept length at the anchors after 1 .. N-1 tokens, full blocks
    rounds_by_length: dict[str, list[int]]  # draft length k -> how many rounds of all streams accept 0 .. k
    transitions: dict[str, int]  # draft length k -> different pairs of accept lengths in successive rounds
    cpu_seconds: float


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """certificate.json: the container's and those of the packs that were fitted to it."""

    recipe: str
    model: ModelCertificate
    packs: dict[str, PackCertificate]


def held_out() -> tuple[Numerics, ...]:
    """Return the ways of rounding that certificates measure; nothing is fitted on any of them."""
    return (FLOAT32, BF16, HARSH, noise_sample(_HELD_OUT_SEED))


def certify_model(
    teacher: Teacher, streams: Sequence[Stream], bounds: Bounds, num_flips: int, cpu_seconds: float
) -> ModelCertificate:
    """Measure a container. Raises FabricationError where it does not say its streams, or says them too narrowly."""
    everything = teacher.scores()
    replies, vocab = teacher.script.replies, teacher.shape.vocab
    scores = everything[..., :vocab]
    gaps = gaps_of(scores, replies)
    stream, index = (int(at) for at in np.unravel_index(gaps.argmin(), gaps.shape))
    smallest = Gap(
        gap=float(gaps.min()),
        stream=streams[stream].name,
        index=index,
        token=int(replies[stream, index]),
        runner_up=int(runners_up(scores, replies, vocab)[stream, index]),
    )
    if smallest.gap <= 0:
        raise FabricationError(
            f"{smallest.stream}, token {index}: the container says id {smallest.runner_up}, the recipe prescribes "
            f"{smallest.token}; use fewer streams or another seed"
        )
    share = padded_share(everything, vocab)
    if share < 1:
        raise FabricationError(f"padded rows win at {share:.4f} of the states, want 1; raise head.padding_score")
    moved = {numerics.name: teacher.scores(numerics)[..., :vocab] for numerics in held_out()}
    movements = movements_of(scores, moved, smallest.gap)
    require_ratios("container", movements, bounds)
    distinct = {one.name: len(set(one.reply_ids)) for one in streams}
    return ModelCertificate(gaps.size, smallest, movements, share, distinct, num_flips, cpu_seconds)


def movements_of(scores: NDArray[np.floating], moved: dict[str, NDArray[np.floating]], gap: float) -> dict[str, Movement]:
    """Return the largest movement of any score, for each way of rounding."""
    largest = {name: largest_movement(scores, other) for name, other in moved.items()}
    return {name: Movement(size, gap / size) for name, size in largest.items()}


def require_ratios(what: str, movements: dict[str, Movement], bounds: Bounds) -> None:
    """Raise FabricationError where a gap is too small for what rounding moves."""
    for numerics, bound in ((FLOAT32, bounds.float32), (BF16, bounds.bf16)):
        ratio = movements[numerics.name].ratio
        if ratio < bound:
            raise FabricationError(
                f"{what}: smallest gap is {ratio:.2f} times what {numerics.name} moves, want {bound}; "
                "use fewer streams or another seed"
            )
