"""The rounds that a greedy loop takes through one stream with a pack: where they start, what is proposed, what the target taps.

The target runs over each round's whole sequence, rejected drafts included, so that a drafter which keeps the wrong rows of a
pass can be imitated. It does not know how a pack drafts. Letters: P prompt, L layers of the target, H hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.schedule import most_drafts, walk
from harness.fabricate.shape import EMBEDDING
from harness.fabricate.teacher import Teacher
from harness.fabricate.transformer import forward

Ids = NDArray[np.int64]
Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Round:
    """One verify pass: the anchor at position `start`, and the drafts behind it."""

    anchor: int
    start: int
    drafts: tuple[int, ...]  # as many as the budget leaves room for
    accepted: int
    rows: Rows  # [1 + drafts, 1 + L, H]: the target's embedding and residual stream after each layer, of every row of the pass


@dataclass(frozen=True, slots=True)
class Rounds:
    """All rounds of one stream."""

    stream: str
    prompt_rows: Rows  # [P, 1 + L, H]
    rounds: tuple[Round, ...]

    @property
    def starts(self) -> Ids:
        """Positions of the anchors [R]."""
        return np.array([one.start for one in self.rounds], np.int64)

    @property
    def anchors(self) -> Ids:
        """The anchors [R]."""
        return np.array([one.anchor for one in self.rounds], np.int64)


def take_rounds(teacher: Teacher, stream: int, name: str, lengths: Ids, drafts: Ids) -> Rounds:
    """Return the rounds of stream number `stream` for the widest blocks.

    `lengths` [N-1] holds the accept length of every anchor, `drafts` [N-1, D] what is proposed there.
    """
    prompt, reply = teacher.script.prompts[stream], teacher.script.replies[stream]
    steps = [
        (emitted, accepted, drafts[emitted - 1][: most_drafts(len(reply), emitted, drafts.shape[1])])
        for emitted, accepted in walk(lengths, drafts.shape[1])
    ]
    sequences = [np.concatenate([prompt, reply[:emitted], proposed]) for emitted, _, proposed in steps]
    ids = np.zeros((len(steps), max(map(len, sequences))), np.int64)  # zeros behind a sequence are seen by none of its rows
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    residuals = forward(teacher.weights, teacher.shape, ids).residuals
    rows = np.stack([teacher.weights[EMBEDDING][ids], *residuals], axis=2)  # [R, T, 1 + L, H]
    rounds = []
    for place, (emitted, accepted, proposed) in enumerate(steps):
        start = len(prompt) + emitted - 1
        own = rows[place, start : start + 1 + len(proposed)]
        rounds.append(Round(int(reply[emitted - 1]), start, tuple(map(int, proposed)), accepted, own))
    return Rounds(name, rows[0, : len(prompt)], tuple(rounds))
