"""A small draft model that agrees with the certified one most of the time: for engines whose drafter is a model of its own.

Two layers instead of three, over the same tokenizer. Its head is solved along the streams of the target: at most places it says
the target's next token, at some another one, so that drafts of every length are accepted. What it says after a token of its own
that the target would not have said is left to chance: nothing behind a rejected draft counts. Beyond the streams it is a stranger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.certificate import FILE_NAME, Certificate
from harness.fabricate.head import HeadDials, solve_head
from harness.fabricate.model_certificate import ModelCertificate, certify_model
from harness.fabricate.numerics import EXACT, noise_sample
from harness.fabricate.q4nx import Q41, write_container
from harness.fabricate.recipe import Bounds
from harness.fabricate.shape import LM_HEAD, ModelShape
from harness.fabricate.streams import NUM_REPLY
from harness.fabricate.teacher import Script, Teacher
from harness.fabricate.tokenizer import END_OF_TEXT, IM_END, write_tokenizer
from harness.fabricate.transformer import Weights
from harness.fabricate.trunk import TrunkDials, random_trunk
from harness.records.files import write_json
from harness.records.fixture import Stream

SEED = 11
SHARE_AGREED = 0.75  # of places at which it says the target's token: accept lengths 0 .. 4 all come in four drafts
LAYERS = 2  # with one, states behind the same token differ too little to say what they should
HEAD = HeadDials(rivals=0, rival_gap=0.9, noise_weight=10.0, noise_samples=2)  # no rivals: its history need not be seen
BOUNDS = Bounds(bf16=1.0)  # it runs in float32 alone


@dataclass(frozen=True, slots=True)
class HeardScript(Script):
    """Streams whose model hears one reply and says another: `replies` is what it says, `heard` [S, N] what really follows."""

    heard: NDArray[np.int64]

    @property
    def inputs(self) -> NDArray[np.int64]:
        """What the model reads, [S, P+N-1]."""
        return np.concatenate([self.prompts, self.heard[:, :-1]], axis=1)


def make_draft_model(target: ModelShape, context: int, streams: Sequence[Stream], directory: Path) -> ModelCertificate:
    """Write the draft model's container into a directory, and certify it from its bytes.

    Raises FabricationError when it does not say what it should, or says it too narrowly.
    """
    shape = msgspec.structs.replace(target, layers=LAYERS)
    heard = Script.of(streams)
    script = HeardScript(heard.prompts, disagreeing(heard.replies), heard.replies)
    trunk = random_trunk(shape, TrunkDials(), SEED)
    weights: Weights = {name: one.decode() if isinstance(one, Q41) else one for name, one in trunk.items()}
    samples = [EXACT, *(noise_sample(seed) for seed in range(HEAD.noise_samples))]
    exact, *noisy = (script.deciding(script.run(weights, shape, one)).reshape(-1, shape.hidden) for one in samples)
    head = solve_head(exact, [one - exact for one in noisy], script.replies.reshape(-1), shape, HEAD, SEED)
    write_container(directory, {**trunk, LM_HEAD: head.matrix})
    write_tokenizer(directory, shape, (IM_END, END_OF_TEXT), context)
    teacher = Teacher(Teacher.read(directory, shape, streams).weights, shape, script)
    certificate = certify_model(teacher, streams, BOUNDS, HEAD.ties, head.num_flips, 0.0)
    write_json(directory / FILE_NAME, Certificate("draft model", certificate, {}))
    return certificate


def disagreeing(replies: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return replies [S, N] of which some tokens, never the same places of two streams, are other ids that replies use."""
    rng = np.random.default_rng([SEED, 6])
    others = (replies + rng.integers(1, NUM_REPLY, replies.shape)) % NUM_REPLY
    return np.where(rng.random(replies.shape) < SHARE_AGREED, replies, others)
