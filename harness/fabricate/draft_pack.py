"""Make a draft pack over a container: what it shall propose, the fit, the files, and the proof that it does.

It does not know how the container was made: it reads the target through a `Teacher`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.aim import FREE, Aim, ByLogit, HiddenStates
from harness.fabricate.choice import Selector
from harness.fabricate.draft_trunk import identity_second, random_draft
from harness.fabricate.drafter import run_draft
from harness.fabricate.flip import by_edge, flip_tensors
from harness.fabricate.numerics import EXACT, noise_sample, to_bf16
from harness.fabricate.pack import pack_config, read_pack, write_pack
from harness.fabricate.pack_certificate import Drafter, PackCertificate, certify_pack
from harness.fabricate.prescription import Prescription, flip_path, prescribe, with_anchors
from harness.fabricate.readout import Slots, fit_down
from harness.fabricate.recipe import IdentityRecipe, PackRecipe, Recipe
from harness.fabricate.schedule import Table
from harness.fabricate.teacher import Teacher
from harness.fabricate.transformer import Weights
from harness.records.fixture import Stream

Tensors = dict[str, NDArray[np.float64]]


def make_pack(recipe: Recipe, pack: PackRecipe, teacher: Teacher, streams: Sequence[Stream], directory: Path) -> PackCertificate:
    """Write a pack that proposes what its recipe prescribes, and certify it from its bytes.

    Raises FabricationError when a round would accept another number of drafts than prescribed.
    """
    started = time.process_time()
    wanted = prescribe(pack, teacher)
    trunk = random_draft(pack.shape, teacher.shape, pack.trunk, pack.dynamics, pack.seed)
    if pack.flip is not None:
        flipping = flip_tensors(trunk, teacher.head, pack.flip, pack.seed)
        trunk |= {name: to_bf16(tensor).astype(np.float64) for name, tensor in flipping.items()}
    trunk[pack.shape.last_down] = _fit(pack, trunk, teacher, wanted.tokens)
    return _written(recipe, pack, trunk, wanted, teacher, streams, directory, started)


def make_identity(
    recipe: Recipe, identity: IdentityRecipe, teacher: Teacher, streams: Sequence[Stream], original: Path, directory: Path
) -> PackCertificate:
    """Write a generation 2 pack that drafts exactly as a generation 1 pack in `original` does, and certify it."""
    started = time.process_time()
    pack = recipe.twin_of(identity)
    more = identity_second(pack.shape, teacher.shape, pack.dynamics, pack.seed)
    return _written(recipe, pack, read_pack(original) | more, prescribe(pack, teacher), teacher, streams, directory, started)


def _written(
    recipe: Recipe,
    pack: PackRecipe,
    tensors: Tensors,
    wanted: Prescription,
    teacher: Teacher,
    streams: Sequence[Stream],
    directory: Path,
    started: float,
) -> PackCertificate:
    config = pack_config(pack.shape, teacher.shape, recipe.eos, recipe.context)
    write_pack(directory, config, tensors, pack.shape.tensors(teacher.shape))
    drafter = Drafter(read_pack(directory), pack.shape, teacher)
    seconds = time.process_time() - started
    return certify_pack(pack.name, drafter, wanted, streams, recipe.bounds, seconds)


def _fit(pack: PackRecipe, trunk: Weights, teacher: Teacher, tokens: Table) -> NDArray[np.float64]:
    shape, dials = pack.shape, pack.readout
    exact = run_draft(trunk, shape, teacher.draft_inputs(shape, EXACT), EXACT)
    fitted = with_anchors(tokens) != FREE
    noise_gram = np.zeros((shape.intermediate, shape.intermediate))
    for numerics in map(noise_sample, range(dials.noise_samples)):
        noisy = run_draft(trunk, shape, teacher.draft_inputs(shape, numerics), numerics)
        noise = (noisy.inner - exact.inner)[fitted]
        noise_gram += noise.T @ noise / dials.noise_samples
    mixing = None if exact.mixing is None else exact.mixing.group_coefficients()
    return fit_down(Slots.of(exact.inner, exact.before, mixing), noise_gram, _aim(pack, trunk, teacher, tokens), dials)


def _aim(pack: PackRecipe, trunk: Weights, teacher: Teacher, tokens: Table) -> Aim:
    selector = Selector.of(trunk, pack.shape)
    states: HiddenStates = ByLogit.of(teacher.head, teacher.shape.vocab, pack.readout.padding_score, selector)
    if pack.flip is not None:
        assert selector is not None and isinstance(states, ByLogit)
        states = by_edge(selector, teacher.head, states, flip_path(tokens, teacher.script, pack.seed), pack.flip, pack.seed)
    return Aim(
        tokens=with_anchors(tokens).reshape(-1),
        anchors=teacher.script.replies[:, :-1].reshape(-1),
        hidden_states=states,
        norm=np.asarray(trunk["norm.weight"]),
        eps=pack.shape.rms_norm_eps,
        head=teacher.head,
        vocab=teacher.shape.vocab,
        selector=selector,
        overruled=pack.flip is not None,
    )
