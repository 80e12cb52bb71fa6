"""A container together with its streams: the target as fabrication runs it, always decoded from the bytes on disk.

It forces every reply, token by token, and hands out what the model computes there: states, taps, scores. It does not know
how the model was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.draft_shape import DraftShape
from harness.fabricate.drafter import DraftInputs
from harness.fabricate.numerics import EXACT, Floats, Numerics
from harness.fabricate.q4nx import read_container
from harness.fabricate.shape import EMBEDDING, LM_HEAD, ModelShape
from harness.fabricate.transformer import States, Weights, forward
from harness.records.fixture import Stream


@dataclass(frozen=True, slots=True)
class Script:
    """The streams as arrays."""

    prompts: NDArray[np.int64]  # [S, P]
    replies: NDArray[np.int64]  # [S, N]

    @staticmethod
    def of(streams: Sequence[Stream]) -> Script:
        """Return the arrays of streams of one length."""
        prompts = np.array([stream.prompt_ids for stream in streams], np.int64)
        return Script(prompts, np.array([stream.reply_ids for stream in streams], np.int64))

    @property
    def inputs(self) -> NDArray[np.int64]:
        """What the model reads, [S, P+N-1]: the last token of a reply is never read."""
        return np.concatenate([self.prompts, self.replies[:, :-1]], axis=1)

    def run(self, weights: Weights, shape: ModelShape, numerics: Numerics = EXACT) -> States:
        """Run the trunk over all streams."""
        return forward(weights, shape, self.inputs, numerics)

    def deciding(self, states: States) -> Floats:
        """Return the final states [S, N, H] that each say one token of a reply."""
        return states.final[:, self.prompts.shape[1] - 1 :]


@dataclass(frozen=True, slots=True)
class Teacher:
    """A decoded container with its streams."""

    weights: Weights
    shape: ModelShape
    script: Script

    @staticmethod
    def read(directory: Path, shape: ModelShape, streams: Sequence[Stream]) -> Teacher:
        """Decode the container in a directory."""
        weights = read_container(directory, shape.vectors() | shape.matrices())
        return Teacher(weights, shape, Script.of(streams))

    @property
    def head(self) -> NDArray[np.float64]:
        """The decoded lm_head [V, H]."""
        return self.weights[LM_HEAD]

    def scores(self, numerics: Numerics = EXACT) -> Floats:
        """Return the scores [S, N, V] of every state that says a token of a reply."""
        states = self.script.deciding(self.script.run(self.weights, self.shape, numerics))
        return self.head_scores(states, numerics)

    def head_scores(self, states: Floats, numerics: Numerics = EXACT) -> Floats:
        """Apply the head to final states [..., H]."""
        return np.asarray(states @ numerics.weight(self.head.astype(numerics.dtype)).T)

    def draft_inputs(self, draft: DraftShape, numerics: Numerics = EXACT) -> DraftInputs:
        """Return what a draft trunk reads at the anchors of all streams."""
        residuals = self.script.run(self.weights, self.shape, numerics).residuals
        taps = np.concatenate([residuals[tap] for tap in draft.taps], axis=-1)
        embedding = self.weights[EMBEDDING]
        anchors = embedding[self.script.replies[:, :-1]]
        return DraftInputs(taps, anchors, embedding[draft.mask_token_id], self.script.prompts.shape[1])
