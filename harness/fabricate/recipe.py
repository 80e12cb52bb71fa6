"""A recipe: everything that decides what is fabricated, as data. It does not know how any of it is made.

The same recipe gives the same bytes (on one numpy and one BLAS). Errors name the file and the key.
"""

from __future__ import annotations

import enum
from collections import Counter
from pathlib import Path

import msgspec

from harness.fabricate.draft_shape import DraftShape, Generation2
from harness.fabricate.draft_trunk import DynamicsDials
from harness.fabricate.flip import FlipDials
from harness.fabricate.head import HeadDials
from harness.fabricate.numerics import BF16, DEVICE, FLOAT32
from harness.fabricate.readout import ReadoutDials
from harness.fabricate.shape import ModelShape
from harness.fabricate.streams import NUM_REPLY, StreamRecipe
from harness.fabricate.tokenizer import END_OF_TEXT, IM_END
from harness.fabricate.trunk import TrunkDials
from harness.records.files import read_toml

SHORTEST = 16  # of prompts and replies: shorter ones have no room for what the kinds of streams promise


class Behaviour(enum.StrEnum):
    """What a pack proposes."""

    TABLE = "table"  # an accept length prescribed at every anchor
    ALWAYS = "always"  # the reply itself
    NEVER = "never"  # one token that no reply holds


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The smallest gap in units of the largest movement of a score, below which fabrication fails."""

    float32: float = 1000.0
    bf16: float = 2.0
    device: float = 2.2  # a target that rounds both sides of its products; 2, and a tenth for the order of its sums
    any_slot_float32: float = 100.0  # packs: slots that decide nothing, too

    def __post_init__(self) -> None:
        if min(self.float32, self.bf16, self.device, self.any_slot_float32) < 1:
            raise ValueError("a bound below 1 lets a movement exceed a gap; use 1 or more")

    @property
    def by_rounding(self) -> dict[str, float]:
        """The bound of each way of rounding that has one."""
        return {FLOAT32.name: self.float32, BF16.name: self.bf16, DEVICE.name: self.device}


class Sight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults that are planted in the fabricator's own code, and must show."""

    history: float | None = None  # smallest share of faults in the cache that must change a later token; None = none planted
    packs: tuple[str, ...] = ()  # a fault of a reader of packs that applies to one of these must show on one of them
    blind: tuple[str, ...] = ()  # faults of a reader that need not show here, since another recipe shows them
    lookup: tuple[int, ...] = ()  # draft lengths at which each wrong rule of lookup must show on some stream

    def __post_init__(self) -> None:
        if self.history is not None and not 0 < self.history <= 1:
            raise ValueError(f"history={self.history} is no share in 0..1")
        if any(k < 1 for k in self.lookup):
            raise ValueError(f"lookup={list(self.lookup)}: a draft length is at least 1")


class PackRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One draft pack."""

    name: str
    behaviour: Behaviour
    seed: int
    shape: DraftShape
    trunk: TrunkDials = TrunkDials()
    readout: ReadoutDials = ReadoutDials()
    dynamics: DynamicsDials = DynamicsDials()  # generation 2
    flip: FlipDials | None = None  # generation 2: the selector decides every fitted slot

    def __post_init__(self) -> None:
        if self.flip is not None and self.shape.generation_2 is None:
            raise ValueError("flip needs a selector; give shape.generation_2")


class IdentityRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A generation 2 pack that drafts exactly as a generation 1 pack of the same recipe."""

    name: str
    of: str  # the generation 1 pack, without a window: generation 2 slides another way
    generation_2: Generation2 = Generation2()


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One container with its streams and packs."""

    name: str
    seed: int
    context: int  # max_position_embeddings
    prompt_length: int
    reply_length: int
    model: ModelShape
    streams: tuple[StreamRecipe, ...]
    eos: tuple[int, ...] = (IM_END, END_OF_TEXT)
    trunk: TrunkDials = TrunkDials()
    head: HeadDials = HeadDials()
    bounds: Bounds = Bounds()
    sight: Sight = Sight()
    packs: tuple[PackRecipe, ...] = ()
    identities: tuple[IdentityRecipe, ...] = ()
    companions: tuple[str, ...] = ()  # recipes beside this one's file that are fabricated with it

    def __post_init__(self) -> None:
        _check_name("name", self.name)
        if not self.streams:
            raise ValueError("streams=[]: a recipe holds at least one stream")
        if min(self.prompt_length, self.reply_length) < SHORTEST:
            raise ValueError(f"prompt_length={self.prompt_length}, reply_length={self.reply_length}: use {SHORTEST} or more")
        if self.prompt_length + self.reply_length > NUM_REPLY:
            raise ValueError(
                f"prompt_length + reply_length = {self.prompt_length + self.reply_length}: a miss needs as many "
                f"different ids; use {NUM_REPLY} or less"
            )
        if self.context < self.prompt_length + self.reply_length:
            raise ValueError(f"context={self.context} is shorter than a stream")
        if not self.eos or not all(0 <= token < self.model.vocab for token in self.eos):
            raise ValueError(f"eos={list(self.eos)}: name at least one id in 0..{self.model.vocab - 1}")
        for name, count in Counter([*(pack.name for pack in self.packs), *(one.name for one in self.identities)]).items():
            _check_name("packs.name", name)
            if count > 1:
                raise ValueError(f"packs.name={name!r} occurs {count} times; names differ")
        originals = [pack.name for pack in self.packs if pack.shape.generation_2 is None and pack.shape.window is None]
        for identity in self.identities:
            if identity.of not in originals:
                raise ValueError(f"identities.of={identity.of!r} is no generation 1 pack without window; use one of {originals}")
        unknown = sorted(set(self.sight.packs) - {pack.name for pack in self.packs})
        if unknown:
            raise ValueError(f"sight.packs: {unknown} are no packs of this recipe")
        for pack in self.all_packs:
            try:
                pack.shape.check_against(self.model)
            except ValueError as error:
                raise ValueError(f"packs {pack.name!r}: {error}") from error

    @property
    def all_packs(self) -> tuple[PackRecipe, ...]:
        """The packs, and the identities as packs."""
        return (*self.packs, *map(self.twin_of, self.identities))

    def twin_of(self, identity: IdentityRecipe) -> PackRecipe:
        """Return an identity as a pack: what its original is, in generation 2."""
        (original,) = [pack for pack in self.packs if pack.name == identity.of]
        shape = msgspec.structs.replace(original.shape, generation_2=identity.generation_2)
        return msgspec.structs.replace(original, name=identity.name, shape=shape)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe. Raises FileFormatError naming file and key."""
    return read_toml(path, Recipe)


def _check_name(key: str, name: str) -> None:
    if not (name.isascii() and name.replace("-", "").isalnum()):
        raise ValueError(f"{key}={name!r}: use letters, digits and dashes; '+', '=' and '@' have a meaning of their own")
