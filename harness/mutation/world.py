"""What a mutation run stands on: a source tree, the laws, and the arenas in which mutants are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from harness.mutation.arena import Arena
from harness.mutation.laws import Laws
from harness.mutation.overlay import Source

OpenArenas = Callable[[Path], AbstractContextManager[Sequence[Arena | None]]]  # a folder to work in -> one arena per worker


@dataclass(frozen=True, slots=True)
class World:
    """What a run needs of the outside."""

    source: Source
    laws: Laws
    open_arenas: OpenArenas
