"""The laws of a real subject and the columns that drive it, from its description and a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.checks.registry import ALL_CHECKS
from harness.checks.replays import Origin
from harness.fabricate.store import fabricate
from harness.mutation.arena import Arena
from harness.mutation.columns import open_column, usable_cores
from harness.mutation.laws import Laws, laws_of
from harness.mutation.recipes import recipe_files
from harness.mutation.world import OpenArenas
from harness.plans.registry import SLICES
from harness.subjects.description import load_description


def laws_and_arenas(description_name: str, recipe: Path, workers: int) -> tuple[Laws, OpenArenas]:
    """Fabricate what is missing and return the laws, and what opens one column per worker."""
    description = load_description(description_name)
    fixture = fabricate(recipe)

    @contextmanager
    def open_arenas(workdir: Path) -> Iterator[Sequence[Arena]]:
        with ExitStack() as stack:
            yield [stack.enter_context(open_column(description, fixture, workdir, core)) for core in usable_cores(workers)]

    origin = Origin(description_name, recipe_files(recipe))
    return laws_of(fixture, ALL_CHECKS, SLICES, description.arms, origin), open_arenas
