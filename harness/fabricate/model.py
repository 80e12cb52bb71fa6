"""Make a container: random trunk, streams, solved head, files. It knows no pack."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from harness.fabricate.head import Head, solve_head
from harness.fabricate.model_certificate import ModelCertificate, certify_model
from harness.fabricate.numerics import EXACT, Floats, noise_sample
from harness.fabricate.q4nx import Q41, write_container
from harness.fabricate.recipe import Recipe
from harness.fabricate.shape import LM_HEAD
from harness.fabricate.teacher import Script, Teacher
from harness.fabricate.tokenizer import write_tokenizer
from harness.fabricate.transformer import Weights
from harness.fabricate.trunk import random_trunk
from harness.records.fixture import Stream


def make_model(recipe: Recipe, streams: Sequence[Stream], directory: Path) -> tuple[Teacher, ModelCertificate]:
    """Write a container that says these streams, and certify it from its bytes.

    Raises FabricationError when it does not say a stream, or says one too narrowly for the recipe's bounds.
    """
    started = time.process_time()
    trunk = random_trunk(recipe.model, recipe.trunk, recipe.seed)
    head = _prescribe(recipe, Script.of(streams), trunk)
    write_container(directory, {**trunk, LM_HEAD: head.matrix})
    write_tokenizer(directory, recipe.model, recipe.eos, recipe.context)
    teacher = Teacher.read(directory, recipe.model, streams)
    seconds = time.process_time() - started
    return teacher, certify_model(teacher, streams, recipe.bounds, recipe.head.ties, head.num_flips, seconds)


def _prescribe(recipe: Recipe, script: Script, trunk: dict[str, Q41 | Floats]) -> Head:
    """Solve the head over the states of the trunk, all streams in one list of states."""
    weights: Weights = {name: one.decode() if isinstance(one, Q41) else one for name, one in trunk.items()}
    hidden = recipe.model.hidden
    samples = [EXACT, *(noise_sample(seed) for seed in range(recipe.head.noise_samples))]
    exact, *noisy = (script.deciding(script.run(weights, recipe.model, numerics)).reshape(-1, hidden) for numerics in samples)
    noise = [one - exact for one in noisy]
    return solve_head(exact, noise, script.replies.reshape(-1), recipe.model, recipe.head, recipe.seed)
