"""Hidden states from which the selector decides: what wins there, and what would win with a fault."""

from __future__ import annotations

import numpy as np
import pytest

from harness.fabricate.aim import ByLogit
from harness.fabricate.choice import Choices, Selector, choose
from harness.fabricate.draft_shape import GATE, PREDECESSORS, SUCCESSORS
from harness.fabricate.flip import FIRST_BAIT, ByEdge, FlipDials, Path, by_edge, flip_tensors
from harness.fabricate.streams import NUM_ASCII

TOKENS, DECOYS, PREVIOUS = np.array([5, 17, 60, 88]), np.array([9, 30, 2, 45]), np.array([1, 5, 17, 60])


@pytest.fixture(scope="module")
def head() -> np.ndarray:
    """Return a head [288, 256] as a solved one is: ids of printable ASCII strong, others weak, padded rows alike."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((288, 256)) * 0.3
    rows[NUM_ASCII:256] *= 0.03
    rows[256:] = rows[256] + 0.01 * rows[256:]
    return np.asarray(rows)


@pytest.fixture(scope="module")
def states(head: np.ndarray) -> ByEdge:
    rng = np.random.default_rng(1)
    random = {PREDECESSORS: rng.standard_normal((288, 8)), SUCCESSORS: np.zeros((288, 8)), GATE: rng.standard_normal((8, 256))}
    tensors = flip_tensors(random, head, FlipDials(), 3)
    selector = Selector(tensors[PREDECESSORS], tensors[SUCCESSORS], tensors[GATE], 16, 1.0, None)
    path = Path(np.ones(4, np.bool_), PREVIOUS, DECOYS)
    return by_edge(selector, head, ByLogit.of(head, 256, 1.5, selector), path, FlipDials(), 3)


@pytest.fixture(scope="module")
def logits(states: ByEdge, head: np.ndarray) -> np.ndarray:
    return np.asarray(hidden(states) @ head[:256].T)


def hidden(states: ByEdge) -> np.ndarray:
    """Return the states of four blocks of one draft each, as long as hidden rows are."""
    rows = states(np.arange(4), TOKENS)
    return np.asarray((rows / np.sqrt(np.mean(rows**2, axis=1, keepdims=True)))[:, None])


def drafted(states: ByEdge, logits: np.ndarray, top_k: int = 16, previous: np.ndarray = PREVIOUS) -> Choices:
    right = states.selector
    selector = Selector(right.predecessors, right.successors, right.gate, top_k, 1.0, None)
    return choose(selector, hidden(states), logits, previous)


def test_the_wanted_token_wins_though_the_decoy_has_the_best_logit_and_it_ranks_last_of_the_candidates(
    states: ByEdge, logits: np.ndarray
) -> None:
    got = drafted(states, logits)
    assert got.drafts[:, 0].tolist() == TOKENS.tolist()
    assert logits[:, 0].argmax(axis=-1).tolist() == DECOYS.tolist()
    ranks = (logits[:, 0] > np.take_along_axis(logits[:, 0], TOKENS[:, None], axis=1)).sum(axis=1)
    assert ranks.tolist() == [15, 15, 15, 15]
    assert got.margins().min() > 0.2


def test_one_candidate_more_lets_a_bait_win_nearly_everywhere_and_one_less_leaves_the_token_out(
    states: ByEdge, logits: np.ndarray
) -> None:
    more, less = (drafted(states, logits, top_k).drafts[:, 0] for top_k in (17, 15))
    assert np.count_nonzero((more >= FIRST_BAIT) & (more < FIRST_BAIT + 16)) >= 3
    assert not set(less.tolist()) & set(TOKENS.tolist())


def test_another_previous_token_makes_other_drafts(states: ByEdge, logits: np.ndarray) -> None:
    got = drafted(states, logits, previous=np.roll(PREVIOUS, 1)).drafts[:, 0]
    assert np.count_nonzero(got != TOKENS) >= 3


def test_a_pinned_slot_is_said_by_its_logit_alone(states: ByEdge) -> None:
    pinned = ByEdge(
        states.selector,
        Path(np.zeros(4, np.bool_), PREVIOUS, DECOYS),
        states.otherwise,
        states.solver,
        states.rows,
        states.dials,
        3,
    )
    rows = pinned(np.arange(4), TOKENS)
    gates = rows @ states.selector.gate.T
    assert np.abs(gates).max() < 0.05  # the token's own logit being 1


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"bait": 0.9}, "want 0 < bait < wanted < filler < 1"),
        ({"edge": 0.1}, r"edge=0\.1 does not lift wanted=0\.85 above 1"),
    ],
)
def test_dials_that_cannot_work_are_refused(dials: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FlipDials(**dials)  # type: ignore[arg-type]


def test_baits_are_ids_that_no_prompt_and_no_text_holds() -> None:
    assert FIRST_BAIT >= NUM_ASCII
    assert FIRST_BAIT + FlipDials().num_baits <= 256
