"""Make everything that a recipe asks for in one directory: container, packs, certificate. It knows no cache."""

from __future__ import annotations

from pathlib import Path

from harness.fabricate import certificate
from harness.fabricate.certificate import Certificate
from harness.fabricate.draft_pack import make_pack
from harness.fabricate.model import make_model
from harness.fabricate.recipe import Recipe
from harness.fabricate.streams import make_streams
from harness.records.files import write_json
from harness.records.fixture import Stream

MODEL = "model"  # directory of the container
PACKS = "packs"  # directory of the packs, one below it for each


def build(recipe: Recipe, directory: Path) -> tuple[Stream, ...]:
    """Write container, packs and certificate, and return the streams.

    Raises FabricationError when anything that was written does not do what the recipe prescribes.
    """
    streams = make_streams(recipe.streams, recipe.prompt_length, recipe.reply_length)
    model = directory / MODEL
    teacher, model_certificate = make_model(recipe, streams, model)
    packs = {pack.name: make_pack(recipe, pack, teacher, streams, directory / PACKS / pack.name) for pack in recipe.packs}
    write_json(model / certificate.FILE_NAME, Certificate(recipe.name, model_certificate, packs))
    return streams
