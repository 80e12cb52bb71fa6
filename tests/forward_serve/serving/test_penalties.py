"""Penalties and logit bias, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forward_serve.serving.penalties import LogitRules
from forward_serve.serving.request import Penalties

BOUND, PADDED = 6, 8
ROW = np.array([2.0, -2.0, 1.0, 0.0, 4.0, -0.5, 9.0, 9.0], np.float32)
PROMPT = (0, 1)
REPLY = (1, 2, 2)


def changed(penalties: Penalties = Penalties(), bias: tuple[tuple[int, float], ...] = ()) -> list[float]:  # noqa: B008
    rules = LogitRules(penalties, bias, PROMPT, BOUND)
    for token in REPLY:
        rules.count(token)
    row = ROW.copy()
    rules.apply(row)
    assert row[BOUND:].tolist() == ROW[BOUND:].tolist()
    values: list[float] = row[:BOUND].tolist()
    return values


def test_presence_is_taken_off_once_for_each_token_of_the_reply_and_not_of_the_prompt() -> None:
    assert changed(Penalties(presence=0.5)) == [2.0, -2.5, 0.5, 0.0, 4.0, -0.5]


def test_frequency_is_taken_off_as_often_as_the_reply_has_the_token() -> None:
    assert changed(Penalties(frequency=0.5)) == [2.0, -2.5, 0.0, 0.0, 4.0, -0.5]


def test_repetition_divides_positive_and_multiplies_negative_logits_of_prompt_and_reply() -> None:
    assert changed(Penalties(repetition=2.0)) == [1.0, -4.0, 0.5, 0.0, 4.0, -0.5]


def test_a_repetition_below_1_rewards() -> None:
    assert changed(Penalties(repetition=0.5)) == [4.0, -1.0, 2.0, 0.0, 4.0, -0.5]


def test_negative_penalties_reward() -> None:
    assert changed(Penalties(presence=-1.0, frequency=-1.0)) == [2.0, 0.0, 4.0, 0.0, 4.0, -0.5]


def test_bias_is_added_to_its_ids() -> None:
    assert changed(bias=((3, 5.0), (4, -100.0))) == [2.0, -2.0, 1.0, 5.0, -96.0, -0.5]


def test_bias_comes_before_repetition_and_repetition_before_the_others() -> None:
    got = changed(Penalties(presence=1.0, frequency=0.5, repetition=2.0), ((1, 3.0), (2, -3.0)))
    assert got == [1.0, (-2.0 + 3.0) / 2 - 0.5 - 1.0, (1.0 - 3.0) * 2 - 2 * 0.5 - 1.0, 0.0, 4.0, -0.5]


def test_the_reply_counts_from_its_own_begin() -> None:
    rules = LogitRules(Penalties(presence=1.0), (), PROMPT, BOUND)
    row = ROW.copy()
    rules.apply(row)
    assert row.tolist() == ROW.tolist()


@pytest.mark.parametrize("repetition", [5e-324, 1e-300, 1e300, 1.7e308])
def test_no_repetition_penalty_is_too_small_or_large(repetition: float) -> None:
    assert np.isfinite(changed(Penalties(repetition=repetition))).all()


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, BOUND - 1), max_size=5),
    st.lists(st.integers(0, BOUND - 1), max_size=8),
    st.floats(-2, 2),
    st.floats(-2, 2),
    st.floats(0.1, 4),
    st.dictionaries(st.integers(0, BOUND - 1), st.floats(-100, 100), max_size=3),
)
def test_any_rules_give_what_the_definition_gives(
    prompt: list[int], reply: list[int], presence: float, frequency: float, repetition: float, bias: dict[int, float]
) -> None:
    rules = LogitRules(Penalties(presence, frequency, repetition), tuple(bias.items()), prompt, BOUND)
    for token in reply:
        rules.count(token)
    row = ROW.copy()
    rules.apply(row)
    want: NDArray[np.float64] = ROW.astype(np.float64)
    for token in range(BOUND):
        want[token] += bias.get(token, 0.0)
        if token in {*prompt, *reply}:
            want[token] = want[token] / repetition if want[token] > 0 else want[token] * repetition
        want[token] -= frequency * reply.count(token) + presence * (token in reply)
    np.testing.assert_allclose(row, want, rtol=1e-5, atol=1e-4)
