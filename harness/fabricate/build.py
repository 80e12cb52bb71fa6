"""Make everything that a recipe asks for in one directory: container, packs, certificate. It knows no cache."""

from __future__ import annotations

import time
from pathlib import Path

from harness.fabricate import certificate
from harness.fabricate.certificate import Certificate
from harness.fabricate.draft_pack import make_identity, make_pack
from harness.fabricate.model import make_model
from harness.fabricate.pack import read_pack
from harness.fabricate.pack_certificate import Drafter
from harness.fabricate.prescription import Prescription, prescribe
from harness.fabricate.recipe import Recipe
from harness.fabricate.sight import certify_sight
from harness.fabricate.streams import make_streams
from harness.fabricate.teacher import Teacher
from harness.records.files import write_json
from harness.records.fixture import Stream

MODEL = "model"  # directory of the container
PACKS = "packs"  # directory of the packs, one below it for each


def build(recipe: Recipe, directory: Path) -> tuple[Stream, ...]:
    """Write container, packs and certificate, and return the streams.

    Raises FabricationError when anything that was written does not do what the recipe prescribes.
    """
    streams = make_streams(recipe.streams, recipe.prompt_length, recipe.reply_length, recipe.head.ties)
    model = directory / MODEL
    teacher, model_certificate = make_model(recipe, streams, model)
    root = directory / PACKS
    packs = {pack.name: make_pack(recipe, pack, teacher, streams, root / pack.name) for pack in recipe.packs}
    packs |= {one.name: make_identity(recipe, one, teacher, streams, root / one.of, root / one.name) for one in recipe.identities}
    started = time.process_time()
    sight = certify_sight(recipe.sight, teacher, streams, _readers(recipe, teacher, root))
    seconds = time.process_time() - started
    write_json(model / certificate.FILE_NAME, Certificate(recipe.name, model_certificate, packs, sight, seconds))
    return streams


def _readers(recipe: Recipe, teacher: Teacher, root: Path) -> dict[str, tuple[Drafter, Prescription]]:
    """Return the packs in which faults are planted, decoded from their bytes, with what they were made to propose."""
    asked = [pack for pack in recipe.packs if pack.name in recipe.sight.packs]
    return {pack.name: (Drafter(read_pack(root / pack.name), pack.shape, teacher), prescribe(pack, teacher)) for pack in asked}
