"""Sampling: one seed, one reply; what top-k and top-p leave; the vocabulary bound; ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.errors import EngineError
from forward_serve.serving.request import SamplingParams
from forward_serve.serving.sampling import Sampler

LOGITS = np.array([0.0, 3.0, 1.0, 3.0, 2.0, 9.0, 9.0], np.float32)  # ids 5 and 6 are padding
BOUND = 5


def drawn(params: SamplingParams, number: int = 60, logits: np.ndarray = LOGITS) -> list[int]:
    sampler = Sampler(params, BOUND)
    return [sampler(logits) for _ in range(number)]


def test_the_same_seed_gives_the_same_tokens_and_another_gives_others() -> None:
    assert drawn(SamplingParams(seed=3)) == drawn(SamplingParams(seed=3))
    assert drawn(SamplingParams(seed=3)) != drawn(SamplingParams(seed=4))


def test_a_negative_seed_is_a_seed() -> None:
    assert drawn(SamplingParams(seed=-5)) == drawn(SamplingParams(seed=-5))
    assert drawn(SamplingParams(seed=-5)) != drawn(SamplingParams(seed=5))


def test_without_a_seed_two_replies_differ() -> None:
    assert drawn(SamplingParams()) != drawn(SamplingParams())


def test_padding_above_the_bound_is_never_drawn_though_its_logit_is_the_highest() -> None:
    assert set(drawn(SamplingParams(temperature=5.0, seed=1), 300)) == set(range(BOUND))


def test_top_k_1_is_the_lowest_of_two_equal_best() -> None:
    assert set(drawn(SamplingParams(top_k=1, seed=1))) == {1}


def test_top_k_3_leaves_the_two_best_and_the_next() -> None:
    assert set(drawn(SamplingParams(temperature=5.0, top_k=3, seed=1), 300)) == {1, 3, 4}


def test_top_k_above_the_vocabulary_leaves_all() -> None:
    assert drawn(SamplingParams(top_k=99, seed=1)) == drawn(SamplingParams(seed=1))


def test_a_small_top_p_is_the_lowest_of_two_equal_best() -> None:
    assert set(drawn(SamplingParams(top_p=1e-9, seed=1))) == {1}


def test_top_p_takes_the_fewest_whose_share_reaches_it() -> None:
    logits = np.log(np.array([0.1, 0.4, 0.3, 0.15, 0.05], np.float32))
    assert set(drawn(SamplingParams(top_p=0.69, seed=1), 300, logits)) == {1, 2}
    assert set(drawn(SamplingParams(top_p=0.75, seed=1), 300, logits)) == {1, 2, 3}


def test_a_share_of_exactly_top_p_is_enough() -> None:
    logits = np.array([-1e4, 1.0, -1e4, 1.0, -1e4], np.float32)
    assert set(drawn(SamplingParams(top_p=0.5, seed=1), 100, logits)) == {1}


def test_top_p_counts_shares_of_what_top_k_left() -> None:
    logits = np.log(np.array([0.1, 0.4, 0.3, 0.15, 0.05], np.float32))
    assert set(drawn(SamplingParams(top_k=2, top_p=0.5, seed=1), 300, logits)) == {1}


def test_shares_are_those_of_the_softmax_at_the_temperature() -> None:
    ids = drawn(SamplingParams(temperature=2.0, seed=9), 20_000)
    shares = np.bincount(ids, minlength=BOUND) / len(ids)
    weights = np.exp(LOGITS[:BOUND].astype(np.float64) / 2.0)
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.02)


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-9, 1e300])
def test_no_temperature_is_too_small_or_large(temperature: float) -> None:
    assert set(drawn(SamplingParams(temperature=temperature, seed=1))) <= set(range(BOUND))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_without_a_highest_logit_is_a_failed_forward(value: float) -> None:
    with pytest.raises(EngineError, match="finite logits"):
        drawn(SamplingParams(seed=1), 1, np.full(BOUND, value, np.float32))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-20, 20, width=32), min_size=BOUND, max_size=BOUND),
    st.integers(0, BOUND + 1),
    st.floats(0.01, 1.0),
    st.integers(0, 99),
)
def test_what_is_drawn_is_among_the_top_k_best(logits: list[float], top_k: int, top_p: float, seed: int) -> None:
    row = np.array(logits, np.float32)
    best = sorted(range(BOUND), key=lambda token: (-row[token], token))[: top_k or BOUND]
    assert set(drawn(SamplingParams(1.0, top_k, top_p, seed), 5, row)) <= set(best)


def test_an_id_that_a_grammar_has_masked_is_never_drawn() -> None:
    logits = np.array([0.0, -np.inf, 1.0, -np.inf, -np.inf], np.float32)
    for params in (SamplingParams(temperature=9.0, seed=1), SamplingParams(9.0, 4, 0.999, 1), SamplingParams(5e-324, seed=1)):
        assert set(drawn(params, 200, logits)) <= {0, 2}
