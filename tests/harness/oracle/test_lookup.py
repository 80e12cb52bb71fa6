from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.oracle.lookup import propose, trace
from harness.oracle.loop import Rules, Said, Step, Trace

A, B, C, D, E, F, X, Y, Z = range(9)


@pytest.mark.parametrize(
    ("stream", "limit", "want"),
    [
        ([A, B, C, D, A, B, C], 4, (D, A, B, C)),  # the suffix of 3, copied to the end of the stream
        ([A, B, C, X, B, C, Y, A, B, C], 1, (X,)),  # 3 tokens far back win over 2 tokens nearer
        ([A, B, X, A, B, Y, A, B], 1, (Y,)),  # the latest occurrence of one length
        ([X, A, B, A], 4, (B, A)),  # one token is enough
        ([A, A], 4, (A,)),  # overlaps the suffix, is not it
        ([A, A, A, A], 4, (A,)),  # a constant stream does not wrap
        ([A, B, A, B, A], 4, (B, A)),  # a suffix of 3 that overlaps its earlier occurrence
        ([A, B, C, D, A, B], 2, (C, D)),  # no more than asked
        ([A, B, C], 4, ()),
        ([A], 4, ()),
    ],
)
def test_the_scan_proposes_what_followed_the_longest_suffix_where_it_was_last(
    stream: list[int], limit: int, want: tuple[int, ...]
) -> None:
    assert propose(stream, limit) == want


def test_a_constant_reply_takes_rounds_of_two_tokens() -> None:
    got = trace([A, B], Said((C,) * 6, budget=6), Rules(k=4))
    assert got == Trace(
        steps=(
            Step(0, asked=True),
            Step(1, True, (C,), 1),
            Step(3, True, (C,), 1),
        ),
        last=1,
        fallback=None,
    )


def test_a_budget_spent_by_t1_runs_nothing() -> None:
    assert trace([A, B, A], Said((B,), budget=1), Rules(k=4)) == Trace((), 1, None)


def test_a_budget_spent_by_t1_is_run_where_the_last_token_is_consumed() -> None:
    assert trace([A, B, A], Said((B,), budget=1), Rules(k=4, consume_last=True)) == Trace((Step(0, asked=False),), 0, None)


def test_a_stop_completed_by_t1_runs_nothing_even_where_the_last_token_is_consumed() -> None:
    assert trace([A, B, A], Said((B,), budget=9, stopped=True), Rules(k=4, consume_last=True)) == Trace((), 1, None)


def test_a_stop_completed_inside_a_block_ends_the_reply_there_with_its_row_run() -> None:
    got = trace([A, B, C, D, E, A], Said((B, C, D), budget=24, stopped=True), Rules(k=4))
    assert got == Trace((Step(0, True, (C, D, E, A), 2),), 0, None)


def test_an_end_token_as_the_first_token_leaves_an_empty_path() -> None:
    assert trace([A, B, A], Said((), budget=9, end_token=B), Rules(k=4)) == Trace((), 0, None)


def test_an_end_token_inside_a_block_is_in_no_count() -> None:
    got = trace([A, B, C, D, E, A], Said((B, C), budget=24, end_token=D), Rules(k=4))
    assert got == Trace((Step(0, True, (C, D, E, A), 1),), 0, None)


def test_an_end_token_chosen_by_the_base_leaves_every_counted_token_run() -> None:
    got = trace([A, B, C, D, E, A], Said((B, C), budget=24, end_token=X), Rules(k=4))
    assert got == Trace((Step(0, True, (C, D, E, A), 1),), 0, None)


def test_drafts_are_limited_by_k_by_the_width_and_by_the_budget_left_after_t1() -> None:
    prompt, reply = [*range(20), 0], tuple(range(1, 9))
    assert len(trace(prompt, Said(reply, 8), Rules(k=3)).steps[0].drafts) == 3
    assert len(trace(prompt, Said(reply, 8), Rules(k=30, width=6)).steps[0].drafts) == 5
    assert len(trace(prompt, Said(reply[:4], 4), Rules(k=7)).steps[0].drafts) == 3


def test_a_budget_spent_by_an_accepted_draft_leaves_nothing_to_run() -> None:
    got = trace([A, B, C, D, E, A], Said((B, C, D), budget=3), Rules(k=4))
    assert got == Trace((Step(0, True, (C, D), 2),), 0, None)


def test_no_drafts_allowed_is_the_plain_loop() -> None:
    got = trace([A, B, A], Said((B, A, B), budget=3), Rules(k=0))
    assert (got.rounds, got.num_plain, got.last) == ((), 2, 1)


def test_a_reply_of_period_6_at_k_7_takes_12_passes_with_36_accepted() -> None:
    said = Said(tuple(10 + t % 6 for t in range(48)), budget=48)
    got = trace(range(6), said, Rules(k=7, consume_last=True))
    assert (len(got.steps), got.num_accepted) == (12, 36)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_a_reply_that_never_repeats_takes_as_many_passes_as_tokens(k: int) -> None:
    got = trace(range(6), Said(tuple(range(10, 58)), budget=48), Rules(k=k, consume_last=True))
    assert (len(got.steps), got.num_drafted) == (48, 0)


@pytest.mark.parametrize(("below", "window", "want"), [(2.0, 3, None), (2.5, 3, 3), (2.5, 1, 1), (2.5, 5, 5), (0.0, 3, None)])
def test_rounds_of_two_tokens_keep_at_a_bar_of_two_and_throw_above_it_at_the_window(
    below: float, window: int, want: int | None
) -> None:
    got = trace([A, B], Said((C,) * 24, budget=24), Rules(4, fallback_below=below, fallback_window=window))
    assert got.fallback == want
    assert want is None or len(got.rounds) == want


def test_the_fallback_rule_takes_the_last_window_and_not_all_records() -> None:
    prompt = [*range(10, 21), 10]  # 5 + 5 tokens, then rounds that land nothing
    reply = (*range(11, 21), 10, 12, 10, 13, 10, 14)
    got = trace(prompt, Said(reply, budget=len(reply)), Rules(4, fallback_below=2.0, fallback_window=3))
    assert [step.accepted + 1 for step in got.rounds][:5] == [5, 5, 1, 1, 1]
    assert got.fallback == 5
    assert not any(step.asked for step in got.steps[5:])


def test_the_round_that_ends_the_reply_is_not_recorded() -> None:
    got = trace([A, B, A], Said((B, A), budget=2), Rules(4, fallback_below=9.0, fallback_window=1))
    assert (len(got.rounds), got.fallback) == (1, None)


def test_a_silent_attempt_is_not_recorded() -> None:
    got = trace([A, B], Said((C, D, E, F), budget=4), Rules(4, fallback_below=9.0, fallback_window=1))
    assert (got.rounds, got.fallback) == ((), None)


@settings(max_examples=60, deadline=None)
@given(
    prompt=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    reply=st.lists(st.integers(0, 3), max_size=16),
    k=st.integers(0, 6),
    ending=st.sampled_from(["budget", "stop", "end"]),
    room=st.integers(0, 5),
)
def test_every_counted_token_is_a_pass_an_accepted_draft_or_the_last(
    prompt: list[int], reply: list[int], k: int, ending: str, room: int
) -> None:
    if not reply and ending != "end":
        reply = [0]
    said = Said(
        tuple(reply),
        budget=len(reply) + (0 if ending == "budget" else room + 1),
        end_token=9 if ending == "end" else None,
        stopped=ending == "stop",
    )
    got = trace(prompt, said, Rules(k))
    assert len(reply) == len(got.rounds) + got.num_plain + got.num_accepted + got.last
    assert all(len(step.drafts) <= min(k, said.budget - step.index - 1) for step in got.steps)
