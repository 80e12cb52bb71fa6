"""The world of a real subject, built from names: its source tree, its laws, the columns that drive it.

Loading this module loads everything that fabricates and judges; a run whose killers are all tests never needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from harness.checks.registry import ALL_CHECKS
from harness.errors import UsageError
from harness.fabricate.store import fabricate
from harness.mutation.arena import Arena
from harness.mutation.catalogue import SOURCE_FILE
from harness.mutation.columns import open_column, usable_cores
from harness.mutation.laws import Laws, laws_of
from harness.mutation.overlay import Source
from harness.mutation.world import World
from harness.plans.registry import SLICES
from harness.records.files import read_toml
from harness.records.plan import Plan
from harness.records.recording import Run
from harness.subjects.description import load_description


class SourceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """mutants/<subject>/source.toml: what a catalogue's mutants may edit, and what drives them."""

    packages: tuple[str, ...]  # below the project's root
    beside: tuple[str, ...] = ()  # what test killers need beside the packages
    description: str = ""  # a subject's description; "" = nothing is started, all killers are test nodes


def build_world(root: Path, subject: str, recipe: Path, workers: int) -> World:
    """Build the world of a subject whose catalogue is `root`/mutants/`subject`. Raises UsageError, FileFormatError."""
    if workers < 1:
        raise UsageError(f"--workers {workers}: at least one column is needed; give 1 or more")
    file = read_toml(root / "mutants" / subject / SOURCE_FILE, SourceFile)
    source = Source(root, file.packages, file.beside)
    if not file.description:
        return World(source, _no_laws(), lambda _workdir: _bare(workers))
    description = load_description(file.description)
    fixture = fabricate(recipe)
    laws = laws_of(fixture, ALL_CHECKS, SLICES, description.arms)

    @contextmanager
    def open_arenas(workdir: Path) -> Iterator[Sequence[Arena]]:
        with ExitStack() as stack:
            yield [stack.enter_context(open_column(description, fixture, workdir, core)) for core in usable_cores(workers)]

    return World(source, laws, open_arenas)


@contextmanager
def _bare(workers: int) -> Iterator[Sequence[Arena | None]]:
    yield [None] * workers


def _no_laws() -> Laws:
    def no_plan(*_: object) -> Plan:
        raise UsageError("killers: this catalogue's subject is not started; name test:<node> killers alone")

    def no_judge(_run: Run) -> Mapping[str, object]:
        raise UsageError("killers: this catalogue's subject is not started, there is nothing to judge")

    return Laws(checks=(), laws={}, arms=(), plan=no_plan, judge=no_judge)  # type: ignore[arg-type]  # both raise
