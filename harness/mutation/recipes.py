"""The files of a recipe, as a kept finding carries them: its own and its companions', each with the name of what it is fabricated as."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UsageError
from harness.fabricate.recipe import read_recipe
from harness.fabricate.store import content_digest
from harness.records.files import write_bytes
from harness.records.replay import RecipeFile, Replay
from harness.scratch import scratch


def recipe_files(recipe: Path) -> tuple[RecipeFile, ...]:
    """Read a recipe and its companions, its own file first. Raises FileFormatError on a broken one."""
    paths = [recipe, *(recipe.parent / name for name in read_recipe(recipe).companions)]
    return tuple(RecipeFile(path.name, _fabricated_as(path), path.read_text(encoding="utf-8")) for path in paths)


@contextmanager
def laid_out(file: Path, replay: Replay) -> Iterator[Path]:
    """Write the recipes of a kept finding side by side, and remove them at the end. `file` is where the finding was read.

    Raises UsageError where one of them is fabricated as other bytes here, and for a name that is more than a file's.
    """
    with scratch("recipe") as folder:
        for one in replay.recipes:
            if Path(one.file).name != one.file:
                raise UsageError(f"{file}: recipes: file={one.file!r} is a path; use a file's name")
            path = folder / one.file
            write_bytes(path, one.text.encode())
            here = _fabricated_as(path)
            if here != one.fabricated:
                raise UsageError(
                    f"{file}: recorded on {one.fabricated}, its recipe is fabricated as {here} here: other bytes; "
                    "use the version of draftproof and of numpy that wrote the file"
                )
        yield folder / replay.recipes[0].file


def _fabricated_as(path: Path) -> str:
    return f"{read_recipe(path).name}@{content_digest(path.read_bytes())}"
