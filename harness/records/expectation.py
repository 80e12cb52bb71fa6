"""What a model and its draft packs must say, computed once from their files by the oracle: it travels inside a recorded run.

With it a run can be judged where the files are not. Nothing here is a path or a count: those are walked anew from the rules
whenever a run is judged. A margin is the smallest change of scores, as a share of the largest one, that changes a choice; equal
scores do not count, as the lowest id wins.
"""

from __future__ import annotations

import msgspec

Ids = tuple[int, ...]


class ModelFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the files of one container say of how replies end."""

    weights: str  # digits that name its weights: twins that share them have the same
    end_tokens: Ids
    context: int  # positions


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One greedy choice of a model: the largest score below the tokenizer's size, of equal ones the lowest id."""

    token: int
    margin: float
    is_tie: bool  # another id has exactly the same score
    is_behind_padding: bool  # an id that the tokenizer does not have scores higher
    logprob: float | None = None  # of the token, among the ids that the tokenizer has; None where it was not computed


class Saying(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model says greedily after one prompt, end tokens and stops left aside."""

    weights: str
    prompt_ids: Ids
    choices: tuple[Choice, ...]


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What a pack drafts behind one token: every slot of its block but the first, whatever part of it is used."""

    drafts: Ids
    margins: tuple[float, ...]


class Drafting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a pack drafts on one sequence of prompt and reply."""

    weights: str  # the target's
    pack: str
    ids: Ids
    blocks: dict[int, Block]  # by the place in `ids` of the token that the drafts follow


class Expectations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a plan's answers are held against and that takes a model to know."""

    recipe: str  # name and content hash of what was fabricated: the plan's own
    models: dict[str, ModelFacts]  # by the plan's name
    block_sizes: dict[str, int]  # pack name -> slots of one block, the anchor's included
    sayings: tuple[Saying, ...]
    draftings: tuple[Drafting, ...]

    def saying(self, model: str, prompt_ids: Ids) -> Saying | None:
        """Return what a model says after a prompt; None where that was not computed."""
        facts = self.models.get(model)
        for saying in self.sayings if facts else ():
            if facts and saying.weights == facts.weights and saying.prompt_ids == prompt_ids:
                return saying
        return None

    def drafting(self, model: str, pack: str, ids: Ids) -> Drafting | None:
        """Return what a pack drafts along a sequence; None where that was not computed."""
        facts = self.models.get(model)
        for drafting in self.draftings if facts else ():
            is_its = facts is not None and drafting.weights == facts.weights and drafting.pack == pack
            if is_its and drafting.ids[: len(ids)] == ids:
                return drafting
        return None
