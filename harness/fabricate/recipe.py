"""A recipe: everything that decides what is fabricated, as data. It does not know how any of it is made.

The same recipe gives the same bytes (on one numpy and one BLAS). Errors name the file and the key.
"""

from __future__ import annotations

import enum
from collections import Counter
from pathlib import Path

import msgspec

from harness.fabricate.head import HeadDials
from harness.fabricate.readout import ReadoutDials
from harness.fabricate.shape import DraftShape, ModelShape
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
    any_slot_float32: float = 100.0  # packs: slots that decide nothing, too

    def __post_init__(self) -> None:
        if min(self.float32, self.bf16, self.any_slot_float32) < 1:
            raise ValueError("a bound below 1 lets a movement exceed a gap; use 1 or more")


class PackRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One draft pack."""

    name: str
    behaviour: Behaviour
    seed: int
    shape: DraftShape
    trunk: TrunkDials = TrunkDials()
    readout: ReadoutDials = ReadoutDials()


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
    packs: tuple[PackRecipe, ...] = ()

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
        for name, count in Counter(pack.name for pack in self.packs).items():
            _check_name("packs.name", name)
            if count > 1:
                raise ValueError(f"packs.name={name!r} occurs {count} times; names differ")
        for pack in self.packs:
            try:
                pack.shape.check_against(self.model)
            except ValueError as error:
                raise ValueError(f"packs {pack.name!r}: {error}") from error


def read_recipe(path: Path) -> Recipe:
    """Read a recipe. Raises FileFormatError naming file and key."""
    return read_toml(path, Recipe)


def _check_name(key: str, name: str) -> None:
    if not (name.isascii() and name.replace("-", "").isalnum()):
        raise ValueError(f"{key}={name!r}: use letters, digits and dashes; '+', '=' and '@' have a meaning of their own")
