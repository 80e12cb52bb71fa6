"""Where what a start names lies: directories of models, packs and twins, made when they are first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.fabricate.pack_twins import pack_twin
from harness.fabricate.twins import is_container, twin, without_format
from harness.records.fixture import Fixture


@dataclass(frozen=True, slots=True)
class Located:
    """Finds the directories of fabricated models, packs and their twins."""

    fixture: Fixture

    def model(self, name: str) -> Path:
        """Return the directory of a container or twin."""
        return twin(self.fixture, name)

    def pack(self, name: str) -> Path:
        """Return the directory of a pack or pack twin, or of a draft model where the subject drafts with one."""
        return twin(self.fixture, name) if is_container(self.fixture, name) else pack_twin(self.fixture, name)


@dataclass(frozen=True, slots=True)
class Containers(Located):
    """Finds the containers that twins in other formats were made from: what the oracle reads."""

    def model(self, name: str) -> Path:
        """Return the directory of the container or twin."""
        return twin(self.fixture, without_format(name))
