"""What a pack shall propose at every anchor of every stream, as its behaviour asks. It does not know how a pack does it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.fabricate.aim import FREE
from harness.fabricate.flip import Path
from harness.fabricate.recipe import Behaviour, PackRecipe
from harness.fabricate.schedule import Table, all_right, schedule_table, table_tokens
from harness.fabricate.scores import runners_up
from harness.fabricate.streams import NUM_ASCII
from harness.fabricate.teacher import Script, Teacher

NEVER_TOKEN = 91  # printable, but in no reply: replies use ids below 90


@dataclass(frozen=True, slots=True)
class Prescription:
    """What a pack shall propose at the anchors of all streams."""

    lengths: Table  # [S, N-1]: accept length of each anchor
    tokens: Table  # [S, N-1, D]: FREE where any token will do
    selected: bool = False  # the selector has to decide every slot that decides a round


def prescribe(recipe: PackRecipe, teacher: Teacher) -> Prescription:
    """Return the accept lengths and the tokens of a pack."""
    replies, drafts = teacher.script.replies, recipe.shape.num_drafts
    if recipe.behaviour is Behaviour.NEVER:
        lengths = np.zeros((len(replies), replies.shape[1] - 1), np.int64)
        return Prescription(lengths, np.full((*lengths.shape, drafts), NEVER_TOKEN, np.int64))
    if recipe.behaviour is Behaviour.ALWAYS:
        lengths = all_right(replies, drafts)
    else:
        lengths = schedule_table(len(replies), replies.shape[1], drafts, recipe.seed)
    second = runners_up(teacher.scores(), replies, NUM_ASCII)
    return Prescription(lengths, table_tokens(lengths, replies, second, drafts), selected=recipe.flip is not None)


def with_anchors(tokens: Table) -> Table:
    """Return tokens [S, E, D] as slots [S, E, B]: a FREE one for the anchor in front."""
    return np.concatenate([np.full((*tokens.shape[:2], 1), FREE), tokens], axis=2)


def flip_path(tokens: Table, script: Script, seed: int) -> Path:
    """Return what slots follow and must win against under a selector that decides: the true token, or any other."""
    anchors = script.replies[:, :-1]
    ahead = np.arange(1, anchors.shape[1] + 1)[:, None] + np.arange(tokens.shape[2])  # [E, D]
    true = script.replies[:, np.minimum(ahead, script.replies.shape[1] - 1)]
    other = np.random.default_rng([seed, 9]).integers(0, NUM_ASCII, tokens.shape)
    other = np.where(other == tokens, (other + 1) % NUM_ASCII, other)
    decoys = with_anchors(np.where(true == tokens, other, true))
    previous = np.concatenate([np.full((*tokens.shape[:2], 1), FREE), anchors[..., None], tokens[..., :-1]], axis=2)
    return Path((with_anchors(tokens) != FREE).reshape(-1), previous.reshape(-1), decoys.reshape(-1))
