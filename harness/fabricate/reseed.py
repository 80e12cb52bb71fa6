"""Recipes again with other seeds: the same behaviours prescribed, other models, streams and packs. It makes none of them."""

from __future__ import annotations

import re
from pathlib import Path

from harness.errors import UsageError
from harness.fabricate.recipe import read_recipe

STEP = 1000  # so that no seed of one draw is one of another
SEED = re.compile(r"^(seed = )(\d+)$", re.MULTILINE)


def reseeded(path: Path, number: int, folder: Path) -> Path:
    """Write a recipe and its companions into `folder`, each seed moved by `number` thousands, and return the recipe's new path.

    Raises UsageError for a number below 1 or a folder that holds one of the files already, FileFormatError as `read_recipe`.
    """
    if number < 1:
        raise UsageError(f"--reseed {number}: other seeds are wanted; give 1 or more")
    names = [path.name, *read_recipe(path).companions]
    for name in names:
        if (folder / name).exists():
            raise UsageError(f"--into {folder}: holds a {name} already; give a new folder")
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_moved((path.parent / name).read_text(encoding="utf-8"), number), encoding="utf-8")
    return folder / path.name


def _moved(text: str, number: int) -> str:
    return SEED.sub(lambda found: f"{found[1]}{int(found[2]) + STEP * number}", text)
