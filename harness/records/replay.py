"""A finding as one file that repeats it: the recipe, the fault that was planted, and the requests that show it. `draftproof replay`."""

from __future__ import annotations

import msgspec

from harness.records.finding import Finding
from harness.records.plan import Plan


class Attempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way of asking it again."""

    name: str  # in words: "alone", "behind all that its start was asked before"
    plan: Plan


class PlantedEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An exact edit of the subject's source; an empty `find` makes a new file."""

    file: str
    find: str
    replace: str


class Mutation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fault that was planted in the subject when the finding was made."""

    id: str
    edits: tuple[PlantedEdit, ...]
    environment: dict[str, str]


class RecipeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recipe's file, whole, so that it can be fabricated again."""

    file: str  # its name, without a folder
    fabricated: str  # name and content hash of what it was fabricated as
    text: str


class Replay(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What `draftproof replay` needs, and nothing beside it but the subject itself."""

    subject: str  # a shipped description's name, or a path to one
    recipes: tuple[RecipeFile, ...]  # the run's own first, then its companions
    finding: Finding
    attempts: tuple[Attempt, ...]  # the smallest first; the next is asked where one does not repeat it
    traced: bool = True
    mutation: Mutation | None = None
