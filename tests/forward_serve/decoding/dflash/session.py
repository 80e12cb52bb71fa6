"""A reply, round by round: what was drafted, how much of it was accepted, and which rows the target left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tests.forward_serve.decoding.dflash.reference import Array, PlainDrafter

PROMPT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5)  # longer than the windows
ANCHOR = 7  # of the first round
ACCEPTED = (2, 0, 5, 1, 4, 0, 3, 5, 5, 2)  # drafts of each round, cut to those that the block has
NUM_TARGET_LAYERS = 5


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a drafter; the target ran the anchor and all drafts, and kept the first `num_kept` rows."""

    start: int  # position of the anchor
    anchor: int
    hidden: Array  # [B, H]
    drafts: tuple[int, ...]
    num_kept: int
    following: int  # the target's own token behind what was accepted, the next round's anchor


def streams(tokens: Sequence[int], start: int, hidden_size: int) -> NDArray[np.float32]:
    """The stream after each layer of the target, [tokens, layers, H]: a function of token and position."""
    shape = (NUM_TARGET_LAYERS, hidden_size)
    rows = [np.random.default_rng([token, start + row]).standard_normal(shape) for row, token in enumerate(tokens)]
    return np.array(rows, np.float32)


def play(drafter: PlainDrafter, accepted: Sequence[int] = ACCEPTED) -> list[Round]:
    """Run a reply in which so many drafts of each round are accepted; the token behind them is another than was drafted."""
    rounds: list[Round] = []
    size = drafter.config["hidden_size"]
    drafter.commit(streams(PROMPT, 0, size), len(PROMPT))
    start, anchor = len(PROMPT), ANCHOR
    for wanted in accepted:
        hidden = drafter.hidden(anchor)
        drafts = tuple(drafter.drafts(hidden, anchor))
        num_kept = min(wanted, len(drafts)) + 1
        following = (drafts[num_kept - 1] + 1) % drafter.bound if num_kept <= len(drafts) else ANCHOR + 1
        rounds.append(Round(start, anchor, hidden, drafts, num_kept, following))
        drafter.commit(streams([anchor, *drafts], start, size), num_kept)
        start, anchor = start + num_kept, following
    return rounds


def again(drafter: PlainDrafter, rounds: Sequence[Round]) -> list[Round]:
    """Run the same reply with another drafter, whose drafts are noted and do not steer it."""
    noted: list[Round] = []
    size = drafter.config["hidden_size"]
    drafter.commit(streams(PROMPT, 0, size), len(PROMPT))
    for one in rounds:
        hidden = drafter.hidden(one.anchor)
        noted.append(replace(one, hidden=hidden, drafts=tuple(drafter.drafts(hidden, one.anchor))))
        drafter.commit(streams([one.anchor, *one.drafts], one.start, size), one.num_kept)
    return noted


def reply_of(rounds: Sequence[Round]) -> list[int]:
    """The tokens of the reply, up to the one that follows its last round."""
    accepted = [[one.anchor, *one.drafts[: one.num_kept - 1]] for one in rounds]
    return [*chain.from_iterable(accepted), rounds[-1].following]
