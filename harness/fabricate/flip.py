"""A selector that decides: hidden states from which the wanted token wins only by what the selector adds to it.

At every fitted slot another token has the best logit, the wanted one is exactly the last candidate of the cut, and right
behind the cut waits a bait which the selector likes so well that it would mostly win if it were let in. So a reader without
the selector, with a candidate more or less, or with another token before, drafts something else. It does not know any trunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.aim import ByLogit
from harness.fabricate.choice import Selector
from harness.fabricate.draft_shape import GATE, PREDECESSORS, SUCCESSORS
from harness.fabricate.streams import NUM_ASCII

Matrix = NDArray[np.float64]
Tokens = NDArray[np.integer[Any]]
_LIFTS = (0.0, 0.5, 1.0, 2.0)  # tried in turn until there are enough ids that the selector likes less than the token
FIRST_BAIT = 188  # ids of bytes that no text holds


class FlipDials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Scores at a fitted slot, in units of the best logit."""

    edge: float = 1.4  # what the selector adds to the wanted token beyond what it adds to the best logit's
    wanted: float = 0.85  # logit of the wanted token
    filler: float = 0.9  # logit of the other candidates
    bait: float = 0.5  # logit of the bait
    filler_edge: float = 0.45  # how much less than to the wanted token the selector adds to a filler
    num_baits: int = 16
    spread: float = 0.25  # deviation of the successor codebook: small, so that what rounding moves in a gate weighs little
    bait_size: float = 6.0  # of the one coordinate of a bait's codebook row, in units of the spread

    def __post_init__(self) -> None:
        if not 0 < self.bait < self.wanted < self.filler < 1:
            raise ValueError(f"bait={self.bait}, wanted={self.wanted}, filler={self.filler}: want 0 < bait < wanted < filler < 1")
        if self.edge <= 1 - self.wanted:
            raise ValueError(f"edge={self.edge} does not lift wanted={self.wanted} above 1")


def flip_tensors(random: dict[str, Matrix], head: Matrix, dials: FlipDials, seed: int) -> dict[str, Matrix]:
    """Return the selector's tensors over a target's head [V, H], made from a random selector's."""
    rng = np.random.default_rng([seed, 7])
    rank = random[GATE].shape[0]
    successors = rng.standard_normal(random[SUCCESSORS].shape)
    for bait in range(dials.num_baits):
        row = np.zeros(rank)
        row[bait // 2 % rank] = dials.bait_size * (1 if bait % 2 else -1)
        successors[FIRST_BAIT + bait] = row
    size = np.sqrt(np.mean(head[:NUM_ASCII] ** 2) * head.shape[1])
    gate = random[GATE] / np.linalg.norm(random[GATE], axis=1, keepdims=True) * size
    return {PREDECESSORS: np.sign(random[PREDECESSORS]), SUCCESSORS: successors * dials.spread, GATE: gate}


@dataclass(frozen=True, slots=True)
class Path:
    """What prescribed slots follow and must win against. [A]; other slots are not read."""

    prescribed: NDArray[np.bool_]
    previous: Tokens
    decoys: Tokens  # the true token where the wanted one is wrong, else any


@dataclass(frozen=True, slots=True)
class ByEdge:
    """Hidden states whose best candidate is the token by the selector's edge alone."""

    selector: Selector
    path: Path
    otherwise: ByLogit  # for slots that are pinned to an id which is not among the rows
    solver: Matrix  # [H, M + r]: from logits of the rows, then gates, to the hidden state that gives them
    rows: Tokens  # [M], rows of the head whose logits are chosen, in order
    dials: FlipDials
    seed: int

    def __call__(self, slots: Tokens, tokens: Tokens) -> Matrix:
        """Return [R, H] for slots [R] that shall say tokens [R]."""
        known = np.isin(tokens, self.rows)
        wanted = np.zeros((np.count_nonzero(known), self.solver.shape[1]))
        wanted[:, : len(self.rows)][:, self.rows >= self.otherwise.vocab] = self.otherwise.padding_score
        for line, slot, token in zip(wanted, slots[known], tokens[known], strict=True):
            ids, logits, gates = self._slot(int(slot), int(token)) if self.path.prescribed[slot] else ([token], [1.0], 0.0)
            line[np.searchsorted(self.rows, ids)] = logits
            line[len(self.rows) :] = gates
        states = self.otherwise(slots, tokens)
        states[known] = wanted @ self.solver.T
        return states

    def _slot(self, slot: int, token: int) -> tuple[Tokens, Matrix, Matrix]:
        """Return ids and their logits, the others' being near zero, and the gates [r]."""
        dials, decoy = self.dials, int(self.path.decoys[slot])
        others = np.random.default_rng([self.seed, 8, slot]).permutation(NUM_ASCII)
        others = others[(others != token) & (others != decoy)]
        ways = [_way(self.selector.successors, token, decoy, dials.edge, lift) for lift in _LIFTS]
        excesses = [self._excess(way, token, others) for way in ways]
        chosen = int(np.argmin([np.partition(excess, self.num_fillers)[: self.num_fillers].sum() for excess in excesses]))
        fillers = others[np.argsort(excesses[chosen], kind="stable")][: self.num_fillers]
        bait = baits(dials)[(self.selector.successors[baits(dials)] @ ways[chosen]).argmax()]
        logits = [1.0, dials.wanted, dials.bait, *[dials.filler] * len(fillers)]
        gates = self.selector.predecessors[self.path.previous[slot]] * ways[chosen]
        return np.array([decoy, token, bait, *fillers]), np.array(logits), gates

    @property
    def num_fillers(self) -> int:
        """Candidates beside the token and the best logit's."""
        return self.selector.top_k - 2

    def _excess(self, way: Matrix, token: int, others: Tokens) -> Matrix:
        """Return by how much each of the others is liked too well to be a filler."""
        edges = self.selector.successors @ way
        return np.asarray(np.maximum(edges[others] - edges[token] + self.dials.filler_edge, 0))


def _way(successors: Matrix, token: int, decoy: int, edge: float, lift: float) -> Matrix:
    """Return gates times the predecessor's row [r]: `edge` from decoy to token, which is also lifted off the rest."""
    difference = successors[token] - successors[decoy]
    way = difference / (difference @ difference)
    beside = successors[token] - way * (successors[token] @ difference)
    return np.asarray(edge * (way + lift * beside / (difference @ difference)))


def baits(dials: FlipDials) -> Tokens:
    """Return the ids of the baits."""
    return np.arange(FIRST_BAIT, FIRST_BAIT + dials.num_baits)


def by_edge(selector: Selector, head: Matrix, otherwise: ByLogit, path: Path, dials: FlipDials, seed: int) -> ByEdge:
    """Return it over a target's head [V, H], for what `path` prescribes."""
    rows = np.concatenate([np.arange(NUM_ASCII), baits(dials), np.arange(otherwise.vocab, len(head))])
    system = np.concatenate([head[rows], selector.gate])
    gram = system.T @ system
    solver = np.linalg.solve(gram + 1e-5 * np.mean(np.diag(gram)) * np.eye(len(gram)), system.T)
    return ByEdge(selector, path, otherwise, solver, rows, dials, seed)
