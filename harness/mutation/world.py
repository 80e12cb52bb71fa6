"""What a mutation run stands on: a source tree, the laws, and the arenas in which mutants are run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.errors import UsageError
from harness.mutation.arena import Arena
from harness.mutation.catalogue import SOURCE_FILE
from harness.mutation.entry import Mutant
from harness.mutation.laws import Laws
from harness.mutation.overlay import Source
from harness.records.files import read_toml
from harness.records.finding import Judgement
from harness.records.plan import Plan, Tier
from harness.records.recording import Run

OpenArenas = Callable[[Path], AbstractContextManager[Sequence[Arena | None]]]  # a folder to work in -> one arena per worker


@dataclass(frozen=True, slots=True)
class Fitted:
    """The mutants that a subject can have, and why it cannot have the others."""

    mutants: tuple[Mutant, ...]
    not_applicable: Mapping[str, str] = field(default_factory=dict)  # by id


@dataclass(frozen=True, slots=True)
class World:
    """What a run needs of the outside."""

    source: Source
    laws: Laws
    open_arenas: OpenArenas
    fit: Callable[[Sequence[Mutant]], Fitted] = lambda mutants: Fitted(tuple(mutants))
    name: str = ""  # of the subject in a report, where it is not the catalogue's


class SourceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """mutants/<subject>/source.toml: what a catalogue's mutants may edit, and what drives them."""

    packages: tuple[str, ...]  # below the project's root
    beside: tuple[str, ...] = ()  # what test killers need beside the packages
    description: str = ""  # a subject's description; "" = nothing is started, all killers are test nodes


def build_world(root: Path, subject: str, recipe: Path, workers: int) -> World:
    """Build the world of the catalogue `root`/mutants/`subject`. Raises UsageError, FileFormatError."""
    if workers < 1:
        raise UsageError(f"--workers {workers}: at least one column is needed; give 1 or more")
    file = read_toml(root / "mutants" / subject / SOURCE_FILE, SourceFile)
    source = Source(root, file.packages, file.beside)
    if not file.description:
        return World(source, no_laws(), lambda _workdir: _bare(workers))
    from harness.mutation.served import laws_and_arenas  # noqa: PLC0415  # loads all that fabricates, judges and drives

    laws, open_arenas = laws_and_arenas(file.description, recipe, workers)
    return World(source, laws, open_arenas)


def no_laws() -> Laws:
    """Return the laws of a tree that is not started: there are none, and whoever asks for one is refused."""

    def plan(_tier: Tier, wanted: Collection[str]) -> Plan:
        raise UsageError(f"killers: {', '.join(wanted)}: nothing is started here; name test:<node> killers alone")

    def judge(run: Run) -> Judgement:
        raise UsageError(f"{run.subject}: nothing is started here, so there is nothing to judge")

    return Laws(checks=(), laws={}, arms=(), plan=plan, judge=judge)


@contextmanager
def _bare(workers: int) -> Iterator[Sequence[Arena | None]]:
    yield [None] * workers
