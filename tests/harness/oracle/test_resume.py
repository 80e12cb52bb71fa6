"""What a prefix cache holds, and what is resumed of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.oracle.resume import NOTHING, Left, num_prefill_passes, num_prefilled, ran

IDS = st.lists(st.integers(0, 2), max_size=8).map(tuple)
PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)


@pytest.mark.parametrize(
    ("prompt", "want"),
    [
        ((1, 2, 3, 4), 3),  # all of it was run, and its last token is run anew
        ((1, 2, 3, 4, 5, 6), 4),  # the fifth was not run
        ((1, 2, 9, 4), 2),
        ((1,), 0),
        ((9, 2, 3), 0),
    ],
)
def test_what_prompt_and_run_tokens_share_is_resumed_but_for_the_prompts_last(prompt: tuple[int, ...], want: int) -> None:
    assert ran((1, 2, 3, 4, 5), 1).resumed(prompt) == want


def test_a_fresh_server_resumes_nothing() -> None:
    assert NOTHING.resumed((1, 2, 3)) == 0


def test_a_last_token_of_which_nobody_knows_whether_it_was_run_matters_only_to_who_goes_on_behind_it() -> None:
    left = ran((1, 2, 3), None)
    assert left.resumed((1, 2, 3)) == 2
    assert left.resumed((1, 2, 9, 9)) == 2
    assert left.resumed((1, 2, 3, 4)) is None


def test_tokens_that_nobody_knows_matter_only_to_who_goes_on_behind_the_known_ones() -> None:
    left = Left((1, 2, 3), 5, 5)
    assert left.resumed((1, 2, 3, 4)) == 3
    assert left.resumed((1, 2, 9, 4, 5)) == 2
    assert left.resumed((1, 2, 3, 4, 5)) is None


@settings(deadline=None, max_examples=200)
@given(IDS, st.integers(0, 1), PROMPTS)
def test_the_rule_is_the_longest_common_beginning_of_what_was_run(
    ids: tuple[int, ...], not_run: int, prompt: tuple[int, ...]
) -> None:
    run = ids[: max(len(ids) - not_run, 0)]
    want = max(size for size in range(len(prompt)) if run[:size] == prompt[:size] and size <= len(run))
    assert Left(ids, len(run), len(run)).resumed(prompt) == want


@pytest.mark.parametrize(
    ("resumed", "passes", "want"), [(0, 0, 0), (0, 1, 16), (0, 2, 32), (0, 3, 40), (5, 1, 21), (5, 3, 40), (39, 1, 40)]
)
def test_a_prefill_leaves_whole_passes(resumed: int, passes: int, want: int) -> None:
    assert num_prefilled(40, resumed, passes, 16) == want


@pytest.mark.parametrize(("num_tokens", "resumed", "want"), [(16, 0, 1), (17, 0, 2), (17, 1, 1), (40, 39, 1)])
def test_a_prefill_takes_as_many_passes_as_rows_need(num_tokens: int, resumed: int, want: int) -> None:
    assert num_prefill_passes(num_tokens, resumed, 16) == want
