"""Whether two sets of sampled replies come from one distribution: a permutation test with an exact false-alarm rate. Knows no law.

Replies to one prompt make a stratum. Each place (a position, or two neighbouring ones) has a table of how often each token came on
either side; its Pearson statistic, and the sum over all positions, are put on one scale by what they are when the sides are dealt anew.
The largest of them is compared with the largest of each deal. If both sides are draws from one distribution every deal is equally
likely, so the chance of a p-value of at most x is at most x, whatever the distribution is, and however places depend on each other.

Source: Fisher, The Design of Experiments (1935), section 21; Westfall and Young, Resampling-Based Multiple Testing (1993), section 2.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Tokens = tuple[int, ...]
Samples = Sequence[Tokens]
Floats = np.ndarray[Any, np.dtype[np.float64]]

ENDED = -1  # stands where a reply has ended: its length is part of what is compared
LEAST_IN_CELL = 10  # of both sides together; rarer tokens of a place share a cell, which costs no exactness
DEALS_AT_ONCE = 2000  # bounds the memory of a test
EVERYWHERE = "all positions together"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a test says: how likely so large a difference is by chance alone, and where it is largest."""

    p_value: float
    place: str


@dataclass(frozen=True, slots=True)
class _Table:
    """Which cell each reply of a stratum falls into, at every place."""

    cells: Floats  # [replies, cells], 0 or 1; the left side's replies first
    begins: list[int]  # where each place's cells begin
    names: list[str]
    is_position: list[bool]  # of each place; else it is two neighbouring ones
    num_left: int


def compare(strata: Mapping[str, tuple[Samples, Samples]], num_deals: int, seed: int = 0) -> Comparison:
    """Compare the two sides of all strata at once. The smallest p-value is 1 / (num_deals + 1).

    Raises ValueError for a side without replies, or for replies that differ nowhere at all: nothing can be told of them.
    """
    tables = [_table(name, left, right) for name, (left, right) in strata.items()]
    names = [name for table in tables for name in table.names]
    if not names:
        raise ValueError("strata: every reply is the same, so no two distributions could be told apart; sample flatter")
    generator = np.random.default_rng(seed)
    dealt = np.concatenate([_statistics(table, num_deals, generator) for table in tables], axis=1)  # [1 + deals, places]
    is_position = [one for table in tables for one in table.is_position]  # neighbours say the same again
    dealt = np.concatenate([dealt, dealt[:, is_position].sum(axis=1, keepdims=True)], axis=1)
    spread = dealt.std(axis=0)
    scaled = (dealt - dealt.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    largest = scaled.max(axis=1)
    p_value = float(np.mean(largest >= largest[0] - 1e-9))  # the deal that was observed is one of them
    return Comparison(p_value, [*names, EVERYWHERE][int(scaled[0].argmax())])


def _table(name: str, left: Samples, right: Samples) -> _Table:
    if not left or not right:
        raise ValueError(f"{name}: {len(left)} and {len(right)} replies; both sides need some")
    columns: list[Floats] = []
    begins, names, is_position = [], [], []
    for place, values in _places([*left, *right]):
        cells = _cells(values)
        if cells.shape[1] > 1:
            begins.append(sum(one.shape[1] for one in columns))
            names.append(f"{name}, {place}")
            is_position.append(len(values[0]) == 1)
            columns.append(cells)
    cells = np.concatenate(columns, axis=1) if columns else np.zeros((0, 0))
    return _Table(cells, begins, names, is_position, len(left))


def _places(replies: Samples) -> Iterator[tuple[str, list[Tokens]]]:
    """Yield each place with what every reply has there."""
    size = max(map(len, replies))
    padded = [reply + (ENDED,) * (size - len(reply)) for reply in replies]
    for at in range(size):
        yield f"token {at}", [reply[at : at + 1] for reply in padded]
    for at in range(size - 1):
        yield f"tokens {at} and {at + 1}", [reply[at : at + 2] for reply in padded]


def _cells(values: Sequence[Tokens]) -> Floats:
    """Return [replies, cells] of one place: a cell for each common value, and one for all others."""
    counts = Counter(values)
    common = [value for value, count in sorted(counts.items()) if count >= LEAST_IN_CELL]
    number = {value: index for index, value in enumerate(common)}
    cell_of = np.array([number.get(value, len(common)) for value in values])
    cells: Floats = np.eye(len(common) + 1)[cell_of]
    return cells[:, cells.sum(axis=0) > 0]


def _statistics(table: _Table, num_deals: int, generator: np.random.Generator) -> Floats:
    """Return Pearson's statistic of each place, [1 + deals, places]; the first row is how the sides were observed."""
    num_replies = len(table.cells)
    if not table.names:
        return np.zeros((num_deals + 1, 0))
    observed = (np.arange(num_replies) < table.num_left).astype(np.uint8)
    rows = [_of_deals(table, observed[None, :])]
    for begin in range(0, num_deals, DEALS_AT_ONCE):
        size = min(DEALS_AT_ONCE, num_deals - begin)
        rows.append(_of_deals(table, generator.permuted(np.tile(observed, (size, 1)), axis=1)))
    return np.concatenate(rows)


def _of_deals(table: _Table, is_left: np.ndarray[Any, np.dtype[np.uint8]]) -> Floats:
    num_replies = len(table.cells)
    share = table.num_left / num_replies
    totals = table.cells.sum(axis=0)
    seen = is_left.astype(np.float64) @ table.cells
    deviation = (seen - totals * share) ** 2 / (totals * share * (1 - share))
    statistics: Floats = np.add.reduceat(deviation, table.begins, axis=1)
    return statistics
