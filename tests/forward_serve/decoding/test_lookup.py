"""The lookup head, by hand and against a scan of the stream."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forward_serve.decoding.lookup import PromptLookupHead
from forward_serve.decoding.silence import Silence


def proposal(committed: list[int], t1: int, max_drafts: int = 4) -> tuple[list[int], str]:
    """What a head that has committed this stream proposes behind t1, and its last word."""
    head = PromptLookupHead()
    head.begin(committed)
    return head.propose(t1, len(committed), max_drafts, None), head.last_word


def by_scan(committed: list[int], t1: int, max_drafts: int) -> list[int]:
    """The same rule as a scan: the longest suffix that ends earlier, its latest end, and what followed up to t1."""
    stream = [*committed, t1]
    for length in (3, 2, 1):
        suffix = stream[-length:]
        for end in range(len(stream) - 1, length - 1, -1):
            if len(stream) > length and stream[end - length : end] == suffix:
                return stream[end : end + max_drafts]
    return []


@pytest.mark.parametrize(
    ("committed", "t1", "want"),
    [
        pytest.param([1, 2, 3, 4, 9, 3, 5, 1, 2], 3, [4, 9, 3, 5], id="three-tokens-before-a-later-single"),
        pytest.param([2, 3, 4, 9, 3, 5, 6, 8, 2], 3, [4, 9, 3, 5], id="two-tokens-before-a-later-single"),
        pytest.param([3, 4, 3, 5, 6], 3, [5, 6, 3], id="the-latest-single"),
        pytest.param([1, 2, 3, 4, 1, 2, 3, 5, 1, 2], 3, [5, 1, 2, 3], id="the-latest-triple"),
        pytest.param([7, 7], 7, [7], id="an-occurrence-may-overlap-the-suffix-but-not-be-it"),
        pytest.param([1, 2, 1, 2], 1, [2, 1], id="copies-to-the-end-of-the-stream-and-does-not-wrap"),
        pytest.param([5], 5, [5], id="a-stream-of-one"),
    ],
)
def test_proposes_what_followed(committed: list[int], t1: int, want: list[int]) -> None:
    assert proposal(committed, t1) == (want, "")


@pytest.mark.parametrize("max_drafts", [1, 2, 3, 5])
def test_proposes_no_more_than_is_asked(max_drafts: int) -> None:
    assert proposal([1, 2, 3, 4, 5], 1, max_drafts)[0] == [2, 3, 4, 5, 1][:max_drafts]


def test_a_constant_stream_proposes_one_token() -> None:
    assert proposal([4] * 50, 4, 7) == ([4], "")


def test_a_token_that_never_occurred_is_no_match() -> None:
    assert proposal([1, 2, 3], 4) == ([], Silence.NO_MATCH)


@pytest.mark.parametrize("position", [2, 4])
def test_a_stream_of_three_at_another_position_is_out_of_step(position: int) -> None:
    head = PromptLookupHead()
    head.begin([1, 2, 1])
    assert (head.propose(1, position, 4, None), head.last_word) == ([], Silence.OUT_OF_STEP)


def test_a_head_that_has_not_begun_is_out_of_step() -> None:
    head = PromptLookupHead()
    assert (head.propose(1, 3, 4, None), head.last_word) == ([], Silence.OUT_OF_STEP)


def test_a_head_that_was_not_asked_yet_has_no_last_word_not_even_of_the_request_before() -> None:
    head = PromptLookupHead()
    assert head.last_word == ""
    head.begin([1, 2, 3])
    assert (head.propose(4, 3, 4, None), head.last_word) == ([], Silence.NO_MATCH)
    head.begin([1, 2, 3])
    assert head.last_word == ""


def test_asking_leaves_no_trace_in_the_index() -> None:
    head = PromptLookupHead()
    head.begin([1, 2, 3])
    assert head.propose(1, 3, 4, None) == [2, 3, 1]
    assert head.propose(8, 3, 4, None) == []
    assert head.propose(1, 3, 4, None) == [2, 3, 1]


def test_a_new_request_forgets_the_former_one() -> None:
    head = PromptLookupHead()
    head.begin([1, 2, 3])
    head.begin([4, 5, 6])
    assert (head.propose(2, 3, 4, None), head.last_word) == ([], Silence.NO_MATCH)


@settings(deadline=None, max_examples=200)
@given(
    chunks=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=8),
    t1=st.integers(0, 3),
    max_drafts=st.integers(1, 8),
)
def test_committed_in_any_chunks_it_proposes_what_a_scan_finds(chunks: list[list[int]], t1: int, max_drafts: int) -> None:
    head = PromptLookupHead()
    head.begin(chunks[0])
    for chunk in chunks[1:]:
        head.commit_rows(chunk)
    committed = [token for chunk in chunks for token in chunk]
    assert head.propose(t1, len(committed), max_drafts, None) == by_scan(committed, t1, max_drafts)


def test_a_prompt_committed_at_once_equals_one_committed_token_by_token() -> None:
    prompt = [1, 2, 3, 1, 2, 4, 1, 2]
    one_by_one = PromptLookupHead()
    one_by_one.begin(prompt[:1])
    for token in prompt[1:]:
        one_by_one.commit_rows([token])
    assert one_by_one.propose(3, len(prompt), 7, None) == proposal(prompt, 3, 7)[0]
