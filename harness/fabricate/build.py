"""Make everything that a recipe asks for in one directory: container, packs, certificate. It knows no cache.

What misses a bound of its certificate is drawn again by itself, with a seed that follows from its own: the streams of kind hit,
the container, or a pack together with those that say the same in other words. Some containers are hard to draft for: where a pack
misses too often, all begins again with another container.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from harness.fabricate import certificate
from harness.fabricate.certificate import Certificate
from harness.fabricate.draft_pack import make_identity, make_pack
from harness.fabricate.draws import Draws, seed_of_draw
from harness.fabricate.errors import UnshownError
from harness.fabricate.history import HistoryCertificate
from harness.fabricate.model import make_model
from harness.fabricate.model_certificate import ModelCertificate
from harness.fabricate.pack import read_pack
from harness.fabricate.pack_certificate import Drafter, PackCertificate
from harness.fabricate.prescription import prescribe
from harness.fabricate.recipe import PackRecipe, Recipe
from harness.fabricate.sensitivity import Shown, planted, require_shown
from harness.fabricate.sight import SightCertificate, history_of, lookup_of
from harness.fabricate.streams import Kind, make_streams
from harness.fabricate.teacher import Teacher
from harness.records.files import write_json
from harness.records.fixture import Stream

MODEL = "model"  # directory of the container
PACKS = "packs"  # directory of the packs, one below it for each
_MOST_STREAMS, _MOST_CONTAINERS, _MOST_PACKS = 16, 8, 6  # draws; those of a pack for each container

Lookups = dict[str, dict[str, dict[str, int]]]


@dataclass(frozen=True, slots=True)
class _Pack:
    """A pack that meets its bounds, and those that say the same in other words."""

    certificates: dict[str, PackCertificate]
    shown: dict[str, Shown] | None  # of faults in its reader; None where the recipe plants none


@dataclass(frozen=True, slots=True)
class _Container:
    teacher: Teacher
    certificate: ModelCertificate
    history: HistoryCertificate | None
    packs: dict[str, _Pack]
    missed: dict[str, list[str]]  # by the packs


@dataclass(slots=True)
class _Site:
    """One fabrication: where it is written, and the time that planted faults took."""

    recipe: Recipe
    directory: Path
    sight_seconds: float = 0.0

    def streams(self, number: int) -> tuple[tuple[Stream, ...], Lookups]:
        """Make a draw of the streams that lookup hits, and the others as they are; see what wrong rules of lookup show."""
        recipe = self.recipe
        asked = [
            msgspec.structs.replace(one, seed=seed_of_draw(one.seed, number)) if one.kind is Kind.HIT else one
            for one in recipe.streams
        ]
        streams = make_streams(asked, recipe.prompt_length, recipe.reply_length, recipe.head.ties)
        return streams, lookup_of(recipe.sight, streams)

    def container(self, streams: Sequence[Stream], number: int) -> _Container:
        """Make a draw of the container, see what its history shows, and make the packs over it."""
        recipe = msgspec.structs.replace(self.recipe, seed=seed_of_draw(self.recipe.seed, number))
        teacher, own = make_model(recipe, streams, _cleared(self.directory / MODEL))
        started = time.process_time()
        history = history_of(recipe.sight, teacher, streams)
        self.sight_seconds += time.process_time() - started
        draws = Draws(_MOST_PACKS)
        return _Container(teacher, own, history, _packs(self, draws, teacher, streams), draws.missed)

    def pack(self, teacher: Teacher, streams: Sequence[Stream], asked: PackRecipe, number: int) -> _Pack:
        """Make a draw of a pack and of its identities, and plant what the recipe asks for in its reader."""
        pack = msgspec.structs.replace(asked, seed=seed_of_draw(asked.seed, number))
        packs = tuple(pack if one.name == pack.name else one for one in self.recipe.packs)
        recipe, root = msgspec.structs.replace(self.recipe, packs=packs), self.directory / PACKS
        made = {pack.name: make_pack(recipe, pack, teacher, streams, _cleared(root / pack.name))}
        for one in recipe.identities:
            if one.of == pack.name:
                target = _cleared(root / one.name)
                made[one.name] = make_identity(recipe, one, teacher, streams, root / pack.name, target)
        if pack.name not in recipe.sight.packs:
            return _Pack(made, None)
        started = time.process_time()
        drafter = Drafter(read_pack(root / pack.name), pack.shape, teacher)
        shown = planted(pack.name, drafter, prescribe(pack, teacher).lengths, streams)
        self.sight_seconds += time.process_time() - started
        return _Pack(made, shown)


def build(recipe: Recipe, directory: Path) -> tuple[Stream, ...]:
    """Write container, packs and certificate, and return the streams.

    Raises FabricationError when something that was written does not do what the recipe prescribes, however often it was drawn.
    """
    site = _Site(recipe, directory)
    of_streams, of_containers = Draws(_MOST_STREAMS), Draws(_MOST_CONTAINERS)
    streams, lookup = of_streams.sound("streams", site.streams)
    container = of_containers.sound("container", partial(site.container, streams))
    certificates = {name: one for pack in container.packs.values() for name, one in pack.certificates.items()}
    shown = {name: container.packs[name].shown or {} for name in recipe.sight.packs}
    write_json(
        directory / MODEL / certificate.FILE_NAME,
        Certificate(
            recipe.name,
            container.certificate,
            {pack.name: certificates[pack.name] for pack in recipe.all_packs},
            SightCertificate(container.history, shown, lookup),
            site.sight_seconds,
            of_streams.missed | of_containers.missed | container.missed,
        ),
    )
    return streams


def _packs(site: _Site, draws: Draws, teacher: Teacher, streams: Sequence[Stream]) -> dict[str, _Pack]:
    """Make all packs; where a fault of a reader shows on none, one that it applies to is drawn again."""
    made: dict[str, _Pack] = {}
    wanted = list(site.recipe.packs)
    while True:
        for pack in wanted:
            made[pack.name] = draws.sound(_part(pack.name), partial(site.pack, teacher, streams, pack))
        try:
            require_shown({name: made[name].shown or {} for name in site.recipe.sight.packs}, site.recipe.sight.blind)
        except UnshownError as error:
            draws.miss(_part(error.pack), error)
            wanted = [pack for pack in site.recipe.packs if pack.name == error.pack]
        else:
            return made


def _part(pack: str) -> str:
    return f"pack {pack}"


def _cleared(directory: Path) -> Path:
    """Remove what an earlier draw left in a directory."""
    if directory.exists():
        shutil.rmtree(directory)
    return directory
