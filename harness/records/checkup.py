"""What a machine has of what is needed, item by item: there, missing with the way to get it, or lost and done without."""

from __future__ import annotations

import enum

import msgspec


class State(enum.StrEnum):
    """Whether one item is there."""

    THERE = "there"
    LOST = "lost"  # not there, and what is lost with it is told; a run goes on without
    MISSING = "missing"  # nothing runs without it


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that is needed: what, whether it is there, what was seen, and how to get it where it is not."""

    what: str
    state: State
    seen: str
    fix: str = ""


class Checkup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that the gate needs of a machine, and what one subject needs beside it ("" = the gate alone)."""

    subject: str
    items: tuple[Item, ...]
    family: str = ""  # what the subject is a build of

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing."""
        return all(item.state is not State.MISSING for item in self.items)
