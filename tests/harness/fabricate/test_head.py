"""Rounding with feedback and the flip repair, on random states."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.fabricate.errors import FabricationError
from harness.fabricate.head import HeadDials, round_with_feedback, solve_head
from harness.fabricate.q4nx import quantise
from harness.fabricate.repair import repair_codes
from harness.fabricate.scores import gaps_of, padded_share
from harness.fabricate.shape import ModelShape

SHAPE = ModelShape(hidden=256, intermediate=256, layers=1, heads=2, kv_heads=1, head_dim=128, vocab=256, padded_vocab=288)
Matrix = NDArray[np.float64]


def random_states(count: int, seed: int = 1) -> tuple[Matrix, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, SHAPE.hidden)), rng.integers(0, 90, count)


def test_every_state_says_its_token_with_the_gap_asked_for_and_padding_wins_unbounded() -> None:
    states, tokens = random_states(48)
    noise = [0.01 * random_states(48, seed)[0] for seed in (2, 3)]
    dials = HeadDials(temperature=4.0)
    head = solve_head(states, noise, tokens, SHAPE, dials, 1)
    scores = states @ head.matrix.decode().T
    assert gaps_of(scores[:, :256], tokens).min() >= 4 * dials.repair_gap - 1e-9
    assert padded_share(scores, 256) == 1.0


def test_rows_that_no_id_owns_are_lifted_until_one_wins_every_state_and_the_others_stay() -> None:
    states, tokens = random_states(48)
    noise = [0.01 * random_states(48, 2)[0]]
    loud, quiet = (solve_head(states, noise, tokens, SHAPE, HeadDials(padding_score=score), 1).matrix for score in (1.5, 0.6))
    assert padded_share(states @ quiet.decode().T, 256) == 1.0
    np.testing.assert_array_equal(quiet.codes[:256], loud.codes[:256])
    np.testing.assert_array_equal(quiet.decode()[:256], loud.decode()[:256])


def test_the_temperature_moves_no_code() -> None:
    states, tokens = random_states(16)
    noise = [0.01 * states]
    flat, sharp = (solve_head(states, noise, tokens, SHAPE, HeadDials(temperature=t), 1) for t in (1.0, 8.0))
    np.testing.assert_array_equal(flat.matrix.codes, sharp.matrix.codes)
    np.testing.assert_array_equal(flat.matrix.decode() * 8, sharp.matrix.decode())


def test_states_that_no_head_can_tell_apart_are_an_error() -> None:
    state = random_states(1)[0]
    with pytest.raises(FabricationError, match=r"head: smallest gap .* use fewer streams"):
        solve_head(np.repeat(state, 2, axis=0), [0 * np.repeat(state, 2, axis=0)], np.array([3, 4]), SHAPE, HeadDials(), 1)


def test_error_feedback_loses_less_than_plain_rounding() -> None:
    rng = np.random.default_rng(4)
    inputs = rng.standard_normal((400, 16)) @ rng.standard_normal((16, 64))  # correlated, as states are
    weights = rng.standard_normal((32, 64))
    losses = {
        name: np.abs(inputs @ (matrix.decode() - weights).T).mean()
        for name, matrix in (("feedback", round_with_feedback(weights, inputs.T @ inputs)), ("plain", quantise(weights)))
    }
    assert losses["feedback"] < 0.5 * losses["plain"]


def test_the_repair_flips_until_the_wanted_gap_and_changes_codes_of_the_given_rows_alone() -> None:
    rng = np.random.default_rng(5)
    states = rng.standard_normal((12, 64))
    matrix = quantise(rng.standard_normal((64, 64)) * 0.1)
    scores = states @ matrix.decode()[:32].T
    tokens = scores.argsort(axis=1)[:, -2]  # the second best: every state starts out wrong
    repair = repair_codes(matrix, states, tokens, 32, 0.2, 4000)
    got = gaps_of(states @ repair.matrix.decode()[:32].T, tokens)
    assert repair.num_flips > 0
    assert repair.smallest_gap >= 0.2
    np.testing.assert_allclose(got.min(), repair.smallest_gap, atol=1e-5)
    np.testing.assert_array_equal(repair.matrix.codes[32:], matrix.codes[32:])


def test_the_repair_stops_at_its_flips() -> None:
    states, tokens = random_states(12)
    matrix = quantise(np.random.default_rng(6).standard_normal((96, SHAPE.hidden)))
    assert repair_codes(matrix, states, tokens, 96, 50.0, 7).num_flips == 7
