"""llama.cpp's ngram-simple, by hand: the history without the last token, latest occurrence first, and its silences."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.oracle.ngram_simple import propose


@pytest.mark.parametrize(
    ("stream", "size_n", "size_m", "want"),
    [
        ([9, 1, 2, 3, 4, 5, 6, 1, 2], 2, 4, (3, 4, 5, 6)),
        ([9, 1, 2, 3, 4, 5, 6, 1, 2], 2, 3, (3, 4, 5)),
        ([9, 1, 2, 3, 4, 1, 2, 5, 6, 7, 1, 2], 2, 2, (5, 6)),  # the latest occurrence
        ([9, 1, 2, 3, 4, 5, 6, 7, 2], 1, 3, (3, 4, 5)),
        ([1, 2, 3, 4, 5, 6, 7, 1, 2], 2, 4, ()),  # an occurrence at the very beginning
        ([9, 1, 2, 3, 4, 5, 6, 7, 8], 2, 4, ()),  # none
        ([9, 1, 2, 3, 4, 5, 1, 2], 2, 4, ()),  # a history of 7 is not longer than 2 + 4 + 1
        ([9, 8, 7, 6, 5, 4, 3, 1, 1, 1], 2, 2, ()),  # one token could be copied, two are looked for
        ([9, 8, 7, 6, 5, 1, 1, 1, 1, 1], 2, 2, ()),  # as little behind the latest occurrence, and no earlier one is tried
    ],
)
def test_what_follows_an_occurrence_is_proposed(stream: list[int], size_n: int, size_m: int, want: tuple[int, ...]) -> None:
    assert propose(stream, size_n, size_m) == want


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 8))
def test_a_proposal_follows_the_looked_for_tokens_somewhere_in_the_history(stream: list[int], size_n: int, size_m: int) -> None:
    drafts = propose(stream, size_n, size_m)
    if not drafts:
        return
    assert size_n <= len(drafts) <= size_m
    wanted = (*stream[-size_n:], *drafts)
    history = stream[:-1]
    assert any(tuple(history[at : at + len(wanted)]) == wanted for at in range(1, len(history)))
