"""Logprobs of raw rows, and how both endpoints write them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.errors import EngineError
from forward_serve.serving.logprob_bodies import chat_logprobs, completion_logprobs, token_text
from forward_serve.serving.logprobs import Scored, Scorer, TokenLogprobs, best_ids, log_softmax

BOUND = 5
ROW = np.array([0.0, 3.0, 1.0, 3.0, 2.0, 9.0, 9.0], np.float32)  # ids 5 and 6 are padding
NAMES = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


def scored(token: int = 1, num_best: int = 3) -> TokenLogprobs:
    return Scorer(NAMES.__getitem__, BOUND, num_best)(ROW, token)


def test_a_logprob_is_the_log_of_the_softmax_over_the_ids_below_the_bound() -> None:
    total = sum(math.exp(value) for value in ROW[:BOUND].tolist())
    assert scored().chosen.logprob == pytest.approx(3.0 - math.log(total), abs=1e-12)


def test_the_best_come_in_order_and_of_equal_ones_the_lowest_id_first() -> None:
    assert [entry.token for entry in scored(num_best=4).best] == [1, 3, 4, 2]


def test_more_alternatives_than_tokens_are_all_tokens() -> None:
    assert [entry.token for entry in scored(num_best=20).best] == [1, 3, 4, 2, 0]


def test_none_asked_is_none_given() -> None:
    assert scored(num_best=0).best == ()


def test_no_spread_of_logits_is_too_large() -> None:
    assert log_softmax(np.array([3e38, -3e38], np.float32)).tolist() == pytest.approx([0.0, -6e38])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_without_a_highest_logit_is_a_failed_forward(value: float) -> None:
    with pytest.raises(EngineError, match="finite logits"):
        log_softmax(np.full(3, value, np.float32))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, -2.0, 7.5]), min_size=1, max_size=12), st.integers(0, 14))
def test_the_best_ids_of_any_row_are_the_first_of_all_ids_in_order(values: list[float], number: int) -> None:
    row = np.array(values, np.float32)
    assert best_ids(row, number) == sorted(range(len(row)), key=lambda token: (-row[token], token))[:number]


def entry(token: int, data: bytes, logprob: float) -> Scored:
    return Scored(token, data, logprob)


A, B, C = entry(1, b"a", -0.5), entry(2, b"b", -1.0), entry(3, b"c", -2.0)


def test_a_completion_has_four_lists_of_one_length_and_the_chosen_behind_better_alternatives() -> None:
    got = completion_logprobs([TokenLogprobs(A, (A, B)), TokenLogprobs(C, (A, B)), TokenLogprobs(B, ())], [0, 1, 2])
    assert got == {
        "tokens": ["a", "c", "b"],
        "token_logprobs": [-0.5, -2.0, -1.0],
        "top_logprobs": [{"a": -0.5, "b": -1.0}, {"a": -0.5, "b": -1.0, "c": -2.0}, {"b": -1.0}],
        "text_offset": [0, 1, 2],
    }
    assert [list(alternatives) for alternatives in got["top_logprobs"]] == [["a", "b"], ["a", "b", "c"], ["b"]]


def test_a_chat_has_one_list_and_the_best_alone_beside_each_token() -> None:
    got = chat_logprobs([TokenLogprobs(C, (A,)), TokenLogprobs(B, ())])
    a, b, c = (
        {"token": name, "logprob": logprob, "bytes": list(name.encode())}
        for name, logprob in (("a", -0.5), ("b", -1.0), ("c", -2.0))
    )
    assert got == {"content": [{**c, "top_logprobs": [a]}, {**b, "top_logprobs": []}]}


def test_a_token_that_is_no_whole_text_is_written_by_its_bytes() -> None:
    assert [token_text(data) for data in (b"\xe2\x82", b"\xc3\xa9", b"")] == ["bytes:\\xe2\\x82", "é", ""]
    half = chat_logprobs([TokenLogprobs(entry(1, b"\xff", -1.0), ())])["content"][0]
    assert (half["token"], half["bytes"]) == ("bytes:\\xff", [255])


def test_alternatives_with_one_text_are_all_there() -> None:
    first, second, third = entry(1, b"x", -0.5), entry(2, b"x", -1.0), entry(3, b"x", -2.0)
    got = completion_logprobs([TokenLogprobs(third, (first, second))], [0])
    assert got["top_logprobs"] == [{"x": -0.5, "token_id:2": -1.0, "token_id:3": -2.0}]


def test_minus_infinity_is_a_number_that_json_knows() -> None:
    got = completion_logprobs([TokenLogprobs(entry(1, b"a", -math.inf), ())], [0])
    assert json.loads(json.dumps(got, allow_nan=False))["token_logprobs"] == [-9999.0]
