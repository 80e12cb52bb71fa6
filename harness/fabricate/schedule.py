"""Accept lengths by prescription: which drafts a pack must propose at every anchor. It does not know how a pack does it.

A table holds one accept length for every anchor of every stream, so that any draft length up to the block's is predictable:
a round with n drafts accepts min(table, n). Lengths on the paths that greedy loops take are scheduled for coverage of
lengths and of transitions between them; the rest is random. Letters: S streams, N reply tokens, D drafts of a block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.aim import FREE

Table = NDArray[np.int64]
_PATH_WIDTHS = (7, 4, 2)  # draft lengths whose paths are scheduled, the first ones first


def most_drafts(reply_length: int, emitted: int, k: int) -> int:
    """Return how many drafts a round after `emitted` tokens may propose."""
    return min(k, reply_length - emitted)


def walk(table: NDArray[np.integer[Any]], k: int) -> Iterator[tuple[int, int]]:
    """Yield (emitted, accepted) of each round that a greedy loop takes through one stream's table [N-1]."""
    reply_length = len(table) + 1
    emitted = 1
    while emitted < reply_length:
        accepted = min(int(table[emitted - 1]), most_drafts(reply_length, emitted, k))
        yield emitted, accepted
        emitted += accepted + 1


def rounds_by_length(table: Table, k: int) -> list[int]:
    """Return how many rounds of width k, over all streams, accept 0, 1, .. k drafts."""
    counts = Counter(accepted for row in table for _, accepted in walk(row, k))
    return [counts[length] for length in range(k + 1)]


def transitions(table: Table, k: int) -> set[tuple[int, int]]:
    """Return the pairs of accept lengths that follow each other in some stream, for rounds of width k."""
    paths = ([accepted for _, accepted in walk(row, k)] for row in table)
    return {pair for path in paths for pair in pairwise(path)}


def schedule_table(streams: int, reply_length: int, drafts: int, seed: int) -> Table:
    """Return accept lengths [S, N-1]; entry e-1 belongs to the anchor after e tokens."""
    rng = np.random.default_rng([seed, 5])
    table = np.full((streams, reply_length - 1), FREE, np.int64)
    for k in [width for width in (drafts, *_PATH_WIDTHS) if width <= drafts]:
        used: Counter[tuple[int, int]] = Counter()
        for row in table:
            _schedule_path(row, k, used)
    for emitted in range(1, reply_length):
        column = table[:, emitted - 1]
        random = rng.integers(0, most_drafts(reply_length, emitted, drafts) + 1, streams)
        column[:] = np.where(column == FREE, random, column)
    return table


def _schedule_path(row: Table, k: int, used: Counter[tuple[int, int]]) -> None:
    """Fill the free entries on the path of width k: each time the least used transition, then the shortest length."""
    reply_length = len(row) + 1
    emitted, previous = 1, FREE
    while emitted < reply_length:
        most = most_drafts(reply_length, emitted, k)
        if row[emitted - 1] == FREE:
            row[emitted - 1] = min(range(most + 1), key=lambda length: _use(previous, length, k, used))
        accepted = min(int(row[emitted - 1]), most)
        used[previous, accepted] += 1
        emitted, previous = emitted + accepted + 1, accepted


def _use(previous: int, length: int, k: int, used: Counter[tuple[int, int]]) -> tuple[int, int, int]:
    outgoing = sum(used[length, after] > 0 for after in range(k + 1))
    return used[previous, length], outgoing, length


def table_tokens(table: Table, replies: NDArray[np.int64], runners_up: NDArray[np.integer[Any]], drafts: int) -> Table:
    """Return the token of each slot, [S, N-1, D], FREE where any will do.

    Slots up to the accept length hold the reply's own tokens, the next one what the target would say second (`runners_up`
    [S, N]); on the widest path the slot after that is right again, so that counting matches is not taken for a prefix.
    """
    reply_length = replies.shape[1]
    tokens = np.full((*table.shape, drafts), FREE, np.int64)
    for stream, row in enumerate(table):
        path = {emitted for emitted, _ in walk(row, drafts)}
        for emitted in range(1, reply_length):
            most = most_drafts(reply_length, emitted, drafts)
            accepted = int(row[emitted - 1])
            slots = tokens[stream, emitted - 1]
            slots[:accepted] = replies[stream, emitted : emitted + accepted]
            if accepted < most:
                slots[accepted] = runners_up[stream, emitted + accepted]
            if emitted in path and accepted + 1 < most:
                slots[accepted + 1] = replies[stream, emitted + accepted + 1]
    return tokens


def all_right(replies: NDArray[np.int64], drafts: int) -> Table:
    """Return a table that accepts everything: at every anchor as many drafts as the block and the reply allow."""
    streams, reply_length = replies.shape
    row = [most_drafts(reply_length, emitted, drafts) for emitted in range(1, reply_length)]
    return np.tile(np.array(row, np.int64), (streams, 1))


def accepted_lengths(drafts: NDArray[np.integer[Any]], replies: NDArray[np.int64]) -> Table:
    """Return the accept length of each anchor, [S, N-1], from the drafts of full blocks [S, N-1, D]."""
    reply_length = replies.shape[1]
    lengths = np.zeros(drafts.shape[:2], np.int64)
    for emitted in range(1, reply_length):
        most = most_drafts(reply_length, emitted, drafts.shape[2])
        right = drafts[:, emitted - 1, :most] == replies[:, emitted : emitted + most]
        lengths[:, emitted - 1] = np.logical_and.accumulate(right, axis=1).sum(axis=1)
    return lengths


def deciding_slots(lengths: Table, drafts: int) -> NDArray[np.bool_]:
    """Return which slots [S, N-1, D] decide a round: the accepted ones and the next, as far as the reply reaches."""
    reply_length = lengths.shape[1] + 1
    left = reply_length - np.arange(1, reply_length)
    return np.asarray(np.arange(drafts) < np.minimum(lengths + 1, left)[..., None])
