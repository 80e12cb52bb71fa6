"""What a container is certified for: that it says its streams, by how much, and how far rounding moves that.

Measured on weights decoded from the written bytes. The forward here is the fabricator's; a second one, that shares nothing
with it, is the business of the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from harness.fabricate.errors import BoundError, FabricationError
from harness.fabricate.margins import Gap, Movement, held_out, movements_of, require_ratio
from harness.fabricate.numerics import Floats
from harness.fabricate.recipe import Bounds
from harness.fabricate.scores import gaps_of, padded_share, runners_up
from harness.fabricate.teacher import Teacher
from harness.records.fixture import Stream

Ties = Sequence[tuple[int, int]]


class Tie(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two ids with bit-equal logits at every state, and the places in replies where they are the best."""

    low: int
    high: int
    places: dict[str, list[int]]  # stream -> places in its reply


class ModelCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The container's certificate."""

    states: int
    smallest_gap: Gap
    movements: dict[str, Movement]
    padded_share: float  # of states where a row that no id owns wins unbounded
    distinct_tokens: dict[str, int]  # stream -> different ids in its reply
    num_flips: int
    cpu_seconds: float
    ties: list[Tie] = []


def certify_model(
    teacher: Teacher, streams: Sequence[Stream], bounds: Bounds, ties: Ties, num_flips: int, cpu_seconds: float
) -> ModelCertificate:
    """Measure a container. Raises BoundError where it does not say its streams, or says them too narrowly."""
    everything = teacher.scores()
    replies, vocab = teacher.script.replies, teacher.shape.vocab
    scores = everything[..., :vocab]
    untied = scores.copy()
    untied[..., [high for _, high in ties]] = -np.inf  # a tie is decided by the lower id, and has no gap
    gaps = gaps_of(untied, replies)
    stream, index = (int(at) for at in np.unravel_index(gaps.argmin(), gaps.shape))
    smallest = Gap(
        gap=float(gaps.min()),
        stream=streams[stream].name,
        index=index,
        token=int(replies[stream, index]),
        runner_up=int(runners_up(untied, replies, vocab)[stream, index]),
    )
    if smallest.gap <= 0:
        raise BoundError(
            f"{smallest.stream}, token {index}: the container says id {smallest.runner_up}, the recipe prescribes "
            f"{smallest.token}; use fewer streams or another seed"
        )
    share = padded_share(everything, vocab)
    if share < 1:
        raise BoundError(f"padded rows win at {share:.4f} of the states, want 1; raise head.padding_score")
    moved = {numerics.name: teacher.scores(numerics)[..., :vocab] for numerics in held_out()}
    movements = movements_of(scores, moved, smallest.gap)
    for key, bound in bounds.by_rounding.items():
        require_ratio("container", key, movements[key].ratio, bound)
    for numerics, one in {"float64": scores, **moved}.items():
        _require_ties(numerics, one, ties)
    distinct = {one.name: len(set(one.reply_ids)) for one in streams}
    return ModelCertificate(gaps.size, smallest, movements, share, distinct, num_flips, cpu_seconds, _ties(streams, ties))


def _require_ties(numerics: str, scores: Floats, ties: Ties) -> None:
    """Raise FabricationError where two tied ids do not have the same score, bit by bit."""
    for low, high in ties:
        if not np.array_equal(scores[..., low], scores[..., high]):
            raise FabricationError(f"container, {numerics}: ids {low} and {high} have other scores; take ids 32 or 64 apart")


def _ties(streams: Sequence[Stream], ties: Ties) -> list[Tie]:
    """Return where the lower id of each tie is said. Raises FabricationError where it nowhere is."""
    found = []
    for low, high in ties:
        places = {one.name: [at for at, token in enumerate(one.reply_ids) if token == low] for one in streams}
        found.append(Tie(low, high, {name: at for name, at in places.items() if at}))
        if not found[-1].places:
            raise FabricationError(f"head.ties: no reply says {low}, so that nothing is tied; add a stream of kind tie")
    return found
