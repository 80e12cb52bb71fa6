"""The loop by hand: what a round costs, what it counts, and where a reply ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from forward_serve.decoding.interfaces import Head
from forward_serve.decoding.lookup import PromptLookupHead
from forward_serve.decoding.loop import Options, Stats, prefill, run, run_from
from forward_serve.decoding.scripted import ScriptedBase, ScriptedHead, saying
from forward_serve.decoding.silence import Silence
from forward_serve.errors import EngineError

BOUND = 100
ELSEWHERE = BOUND - 1  # what the base says off its script
PROMPT = [90, 91, 92]
REPLY = list(range(10, 58))  # 48 tokens, none twice


class TwoPassLookup(PromptLookupHead):
    """The lookup head, asked as one that reads the hidden row of the current token."""

    needs_hidden = True


def base_saying(reply: Sequence[int], prompt: Sequence[int] = PROMPT, width: int = 16) -> ScriptedBase:
    return ScriptedBase(saying(prompt, reply, ELSEWHERE), BOUND, width, keep_hidden=True)


def perfect(reply: Sequence[int], two_pass: bool = False, pays: bool = False) -> ScriptedHead:
    """A head that proposes the reply itself."""
    said = [*PROMPT, *reply]
    return ScriptedHead(lambda index, most: said[index + 1 : index + 1 + most], two_pass, pays)


def hopeless(two_pass: bool = False) -> ScriptedHead:
    """A head whose every draft is wrong."""
    return ScriptedHead(lambda _index, most: [ELSEWHERE] * most, two_pass)


def silent(two_pass: bool = False, pays: bool = False) -> ScriptedHead:
    return ScriptedHead(lambda _index, _most: [], two_pass, pays)


def answer(
    head: Head | None, options: Options, reply: Sequence[int] = REPLY, prompt: Sequence[int] = PROMPT, width: int = 16
) -> tuple[list[int], Stats, ScriptedBase]:
    """Run one reply; return the delivered tokens, the counts and the base."""
    base = base_saying(reply, prompt, width)
    tokens: list[int] = []

    def deliver(token: int) -> bool:
        tokens.append(token)
        return options.deliver(token)

    stats = run(base, head, prompt, replace(options, deliver=deliver))
    return tokens, stats, base


def stopping_at(token: int) -> Callable[[int], bool]:
    return lambda delivered: delivered != token


# The economics ----------------------------------------------------------------------------------------------------------


def test_period_of_six_takes_12_passes_for_48_tokens_where_plain_takes_48() -> None:
    reply = [10, 11, 12, 13, 14, 15] * 8
    _, plain, _ = answer(None, Options(k=7, max_tokens=48), reply)
    tokens, stats, _ = answer(PromptLookupHead(), Options(k=7, max_tokens=48), reply)
    assert tokens == reply
    assert (plain.passes, plain.plain_steps) == (48, 48)
    assert (stats.passes, stats.accepted, stats.drafted, stats.rounds, stats.plain_steps) == (12, 36, 36, 6, 6)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_reply_without_repeats_to_a_prompt_that_offers_no_match_drafts_nothing_in_48_passes(k: int) -> None:
    tokens, stats, _ = answer(PromptLookupHead(), Options(k=k, max_tokens=48))
    assert tokens == REPLY
    assert (stats.passes, stats.drafted, stats.rounds, stats.silence) == (48, 0, 0, Silence.NO_MATCH)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_reply_without_repeats_to_a_prompt_that_offers_matches_lands_nothing_in_48_passes(k: int) -> None:
    prompt = list(reversed(REPLY))  # each token of the reply was there, with another one behind it
    tokens, stats, _ = answer(PromptLookupHead(), Options(k=k, max_tokens=48), prompt=prompt)
    assert tokens == REPLY
    assert (stats.passes, stats.accepted, stats.silence) == (48, 0, "")
    assert stats.drafted >= stats.rounds > 40


def test_two_pass_head_that_lands_everything_takes_two_passes_for_eight_tokens() -> None:
    tokens, stats, base = answer(perfect(REPLY, two_pass=True), Options(k=7, max_tokens=48))
    assert tokens == REPLY
    assert (stats.passes, stats.rounds, stats.accepted, stats.plain_steps) == (12, 6, 42, 0)
    assert base.pass_sizes[len(PROMPT) :] == [1, 7] * 6


@pytest.mark.parametrize("head", [PromptLookupHead, TwoPassLookup])
def test_lookup_asked_in_one_pass_or_two_says_the_same_and_ends_at_the_same_position(
    head: type[PromptLookupHead],
) -> None:
    reply = [10, 11, 12, 10, 11, 13, 10, 11, 12, 10, 11, 12, 10, 11]
    tokens, stats, base = answer(head(), Options(k=4, max_tokens=14), reply)
    assert (tokens, base.stream) == (reply, [*PROMPT, *reply])
    assert stats.accepted > 0


# Where a reply ends -----------------------------------------------------------------------------------------------------


def test_stop_completed_inside_an_accepted_block_cuts_there() -> None:
    options = Options(k=7, max_tokens=48, deliver=stopping_at(12))
    tokens, stats, base = answer(perfect(REPLY), options)
    assert tokens == [10, 11, 12]
    assert (stats.tokens, stats.accepted, stats.drafted, stats.last, stats.ended) == (3, 2, 7, 0, True)
    assert stats.per_round == [(tuple(REPLY[1:8]), 2)]
    assert base.stream == [*PROMPT, 10, 11, 12]


def test_end_token_inside_an_accepted_block_is_in_no_count_and_leaves_no_row() -> None:
    options = Options(k=7, max_tokens=48, deliver=stopping_at(12), end_tokens=frozenset({12}))
    tokens, stats, base = answer(perfect(REPLY), options)
    assert tokens == [10, 11, 12]
    assert (stats.tokens, stats.accepted, stats.last) == (2, 1, 0)
    assert base.stream == [*PROMPT, 10, 11]


def test_end_token_that_deliver_lets_pass_is_a_token_like_any_other() -> None:
    _, stats, base = answer(perfect(REPLY), Options(k=7, max_tokens=8, end_tokens=frozenset({12})))
    assert (stats.tokens, stats.accepted, base.stream) == (8, 7, [*PROMPT, *REPLY[:8]])


@pytest.mark.parametrize("consume_last", [True, False])
def test_stop_completed_by_t1_runs_nothing_more(consume_last: bool) -> None:
    options = Options(k=7, max_tokens=48, consume_last=consume_last, deliver=stopping_at(18))
    tokens, stats, base = answer(perfect(REPLY), options)
    assert tokens == REPLY[:9]
    assert (stats.tokens, stats.rounds, stats.accepted, stats.last) == (9, 1, 7, 1)
    assert base.stream == [*PROMPT, *REPLY[:8]]


@pytest.mark.parametrize("consume_last", [True, False])
def test_end_token_as_the_first_token_leaves_an_empty_reply(consume_last: bool) -> None:
    options = Options(k=7, max_tokens=48, consume_last=consume_last, deliver=stopping_at(10), end_tokens=frozenset({10}))
    tokens, stats, base = answer(perfect(REPLY), options)
    assert (tokens, stats.silence) == ([10], Silence.ENDED)
    assert stats == Stats(ended=True)
    assert base.stream == PROMPT


@pytest.mark.parametrize(("consume_last", "last"), [(True, 0), (False, 1)])
def test_budget_spent_by_t1_runs_it_only_where_the_last_token_is_consumed(consume_last: bool, last: int) -> None:
    tokens, stats, base = answer(perfect(REPLY), Options(k=7, max_tokens=9, consume_last=consume_last))
    assert tokens == REPLY[:9]
    assert (stats.rounds, stats.accepted, stats.plain_steps, stats.last) == (1, 7, 1 - last, last)
    assert base.num_positions == len(PROMPT) + 9 - last


def test_stop_completed_by_the_last_token_of_the_budget_wins_over_the_budget() -> None:
    _, stats, base = answer(None, Options(k=0, max_tokens=3, deliver=stopping_at(12)))
    assert (stats.ended, stats.tokens, stats.last, base.stream) == (True, 3, 1, [*PROMPT, 10, 11])


@pytest.mark.parametrize("consume_last", [True, False])
def test_budget_spent_by_a_draft_ends_the_reply_there(consume_last: bool) -> None:
    tokens, stats, base = answer(perfect(REPLY), Options(k=7, max_tokens=5, consume_last=consume_last))
    assert tokens == REPLY[:5]
    assert (stats.rounds, stats.drafted, stats.accepted, stats.last, stats.ended) == (1, 4, 4, 0, False)
    assert base.stream == [*PROMPT, *REPLY[:5]]


@pytest.mark.parametrize(
    ("k", "width", "max_tokens", "want"),
    [
        pytest.param(3, 16, 48, 3, id="k"),
        pytest.param(40, 16, 48, 15, id="one-less-than-the-width"),
        pytest.param(7, 2, 48, 1, id="width-two"),
        pytest.param(7, 16, 6, 5, id="what-is-left-after-t1"),
    ],
)
def test_first_round_drafts_the_least_of(k: int, width: int, max_tokens: int, want: int) -> None:
    _, stats, base = answer(perfect(REPLY), Options(k=k, max_tokens=max_tokens), width=width)
    assert len(stats.per_round[0][0]) == want
    assert base.pass_sizes[len(PROMPT)] == want + 1


@pytest.mark.parametrize(("k", "width"), [(0, 16), (7, 1)])
def test_no_place_for_a_draft_leaves_plain_steps_and_a_head_that_was_never_asked(k: int, width: int) -> None:
    tokens, stats, _ = answer(perfect(REPLY), Options(k=k, max_tokens=5), width=width)
    assert tokens == REPLY[:5]
    assert (stats.plain_steps, stats.num_asked, stats.silence) == (5, 0, Silence.BUDGET)


def test_budget_of_one_never_asks_the_head() -> None:
    _, stats, _ = answer(perfect(REPLY), Options(k=7, max_tokens=1, consume_last=False))
    assert stats == Stats(tokens=1)
    assert (stats.last, stats.silence) == (1, Silence.BUDGET)


# The fallback rule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("two_pass", [False, True])
@pytest.mark.parametrize("window", [1, 3, 5])
def test_head_that_never_lands_is_off_after_exactly_the_window(window: int, two_pass: bool) -> None:
    options = Options(k=4, max_tokens=20, fallback_below=1.5, fallback_window=window)
    tokens, stats, _ = answer(hopeless(two_pass), options)
    assert tokens == REPLY[:20]
    assert (stats.rounds, stats.fell_back_at, stats.plain_steps) == (window, window, 20 - window)


@pytest.mark.parametrize("two_pass", [False, True])
def test_head_that_lands_every_draft_is_never_off_at_k_plus_one(two_pass: bool) -> None:
    options = Options(k=3, max_tokens=48, fallback_below=4.0, fallback_window=1)
    _, stats, _ = answer(perfect(REPLY, two_pass), options)
    assert (stats.fell_back_at, stats.rounds) == (None, 12)


@pytest.mark.parametrize(("below", "want"), [(2.0, None), (2.5, 3)])
def test_constant_reply_has_lookup_rounds_of_exactly_two_tokens(below: float, want: int | None) -> None:
    options = Options(k=7, max_tokens=24, fallback_below=below)
    tokens, stats, _ = answer(PromptLookupHead(), options, [10] * 24)
    assert tokens == [10] * 24
    assert stats.fell_back_at == want


@pytest.mark.parametrize("two_pass", [False, True])
@pytest.mark.parametrize(("pays", "want"), [(True, 3), (False, None)])
def test_silent_attempt_is_recorded_as_one_token_only_where_it_was_paid_for(pays: bool, want: int | None, two_pass: bool) -> None:
    options = Options(k=4, max_tokens=10, fallback_below=1.5)
    _, stats, _ = answer(silent(two_pass, pays), options)
    assert (stats.fell_back_at, stats.plain_steps) == (want, 10)
    assert stats.num_asked == (want or 9)


def test_round_that_ends_the_reply_is_not_recorded() -> None:
    options = Options(k=4, max_tokens=48, fallback_below=9.0, fallback_window=1, deliver=stopping_at(12))
    _, stats, _ = answer(perfect(REPLY), options)
    assert (stats.rounds, stats.fell_back_at) == (1, None)


def test_head_hears_of_every_committed_token_after_it_was_switched_off() -> None:
    head = hopeless()
    _, _, base = answer(head, Options(k=4, max_tokens=20, fallback_below=1.5, fallback_window=1))
    assert head.committed == base.stream == [*PROMPT, *REPLY[:20]]


# Two entrances, and what they refuse -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make_head", [lambda: None, PromptLookupHead, TwoPassLookup, lambda: perfect(REPLY)])
def test_run_equals_prefill_and_run_from(make_head: Callable[[], Head | None]) -> None:
    options = Options(k=4, max_tokens=20, fallback_below=1.2)
    want_tokens, want, want_base = answer(make_head(), options)
    base, head, tokens = base_saying(REPLY), make_head(), list[int]()
    if head is not None:
        head.begin(PROMPT)
    logits = base.forward(PROMPT)[-1]

    def deliver(token: int) -> bool:
        tokens.append(token)
        return True

    stats = run_from(base, head, 3, logits, replace(options, deliver=deliver))
    assert (tokens, stats, base.stream) == (want_tokens, want, want_base.stream)


@pytest.mark.parametrize("pos", [0, 2, 4])
def test_run_from_refuses_a_position_that_is_zero_or_not_the_base_s_own(pos: int) -> None:
    base = base_saying(REPLY)
    logits = prefill(base, PROMPT)
    with pytest.raises(EngineError, match=f"pos={pos} on a base of 3 positions"):
        run_from(base, None, pos, logits, Options(k=0, max_tokens=1))


def test_run_from_refuses_position_zero_on_an_empty_base() -> None:
    with pytest.raises(EngineError, match="pos=0"):
        run_from(base_saying(REPLY), None, 0, np.zeros(BOUND, np.float32), Options(k=0, max_tokens=1))


@pytest.mark.parametrize("shape", [(1, BOUND), (BOUND - 1,)])
def test_run_from_refuses_logits_that_are_not_one_row_over_the_vocabulary(shape: tuple[int, ...]) -> None:
    base = base_saying(REPLY)
    prefill(base, PROMPT)
    with pytest.raises(EngineError, match="logits of shape"):
        run_from(base, None, 3, np.zeros(shape, np.float32), Options(k=0, max_tokens=1))


def test_run_refuses_an_empty_prompt_and_runs_nothing() -> None:
    base = base_saying(REPLY)
    with pytest.raises(EngineError, match="prompt is empty"):
        run(base, None, [], Options(k=0, max_tokens=1))
    assert base.stream == []


def test_run_refuses_a_base_that_holds_positions() -> None:
    base = base_saying(REPLY)
    prefill(base, PROMPT)
    with pytest.raises(EngineError, match="holds 3 positions"):
        run(base, None, PROMPT, Options(k=0, max_tokens=1))


def test_both_entrances_refuse_a_base_without_vocabulary() -> None:
    base = ScriptedBase(saying(PROMPT, REPLY, 0), vocab_bound=0)
    with pytest.raises(EngineError, match="vocab_bound=0"):
        run(base, None, PROMPT, Options(k=0, max_tokens=1))
    base.stream = list(PROMPT)
    with pytest.raises(EngineError, match="vocab_bound=0"):
        run_from(base, None, 3, np.zeros(3, np.float32), Options(k=0, max_tokens=1))


def test_two_pass_head_is_refused_on_a_base_that_keeps_no_hidden_rows() -> None:
    base = ScriptedBase(saying(PROMPT, REPLY, ELSEWHERE), BOUND)
    with pytest.raises(EngineError, match="needs hidden rows"):
        run(base, perfect(REPLY, two_pass=True), PROMPT, Options(k=4, max_tokens=4))


def test_head_beside_a_choice_of_its_own_is_refused() -> None:
    with pytest.raises(EngineError, match="drafts are verified greedily"):
        answer(perfect(REPLY), Options(k=4, max_tokens=4, choose=lambda _row: 5))


def test_choice_of_its_own_decides_every_token_of_a_plain_reply() -> None:
    seen = []

    def choose(row: np.ndarray) -> int:
        seen.append(int(row[:BOUND].argmax()))
        return 5

    tokens, _, base = answer(None, Options(k=0, max_tokens=3, choose=choose))
    assert (tokens, seen, base.stream) == ([5, 5, 5], [10, ELSEWHERE, ELSEWHERE], [*PROMPT, 5, 5, 5])


@pytest.mark.parametrize(
    ("field", "value"),
    [("k", -1), ("max_tokens", 0), ("fallback_below", -0.5), ("fallback_below", float("nan")), ("fallback_window", 0)],
)
def test_options_out_of_range_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(EngineError, match=f"{field}={value}"):
        Options(**{"k": 4, "max_tokens": 4, field: value})  # type: ignore[arg-type]


# Replies that are broken off -------------------------------------------------------------------------------------------


class ClientLeftError(Exception):
    """What a deliver may raise."""


@pytest.mark.parametrize("two_pass", [False, True])
@pytest.mark.parametrize("num_taken", range(12))
def test_deliver_that_raises_leaves_the_counts_and_exactly_the_delivered_rows(num_taken: int, two_pass: bool) -> None:
    base, head, stats, tokens = base_saying(REPLY), perfect(REPLY, two_pass), Stats(), list[int]()

    def deliver(token: int) -> bool:
        if len(tokens) == num_taken:
            raise ClientLeftError
        tokens.append(token)
        return True

    with pytest.raises(ClientLeftError):
        run(base, head, PROMPT, Options(k=3, max_tokens=20, deliver=deliver), stats)
    assert (tokens, stats.tokens, stats.last) == (REPLY[:num_taken], num_taken, 0)
    assert base.stream == head.committed == [*PROMPT, *REPLY[:num_taken]]
    assert stats.accepted == sum(accepted for _, accepted in stats.per_round)


@pytest.mark.parametrize("two_pass", [False, True])
@pytest.mark.parametrize("fail_pass", range(1, 7))
def test_failing_pass_is_in_no_count_and_leaves_exactly_the_committed_rows(fail_pass: int, two_pass: bool) -> None:
    base, stats = base_saying(REPLY), Stats()
    logits = prefill(base, PROMPT)
    head = perfect(REPLY, two_pass)
    head.begin(PROMPT)
    base.fail_pass = fail_pass
    with pytest.raises(EngineError, match="told to fail"):
        run_from(base, head, 3, logits, Options(k=3, max_tokens=40), stats)
    assert stats.passes == fail_pass - 1 == len(base.pass_sizes) - len(PROMPT)
    assert base.stream == [*PROMPT, *REPLY[: stats.tokens - stats.last]]
    assert stats.last == (0 if two_pass and fail_pass % 2 == 0 else 1)


def test_failing_prefill_pass_keeps_the_completed_ones_and_the_time_that_they_took() -> None:
    base, stats, ticks = base_saying(REPLY), Stats(), iter([1.0, 3.5])
    base.fail_pass = 3
    with pytest.raises(EngineError, match="told to fail"):
        run(base, None, PROMPT, Options(k=0, max_tokens=4), stats, clock=lambda: next(ticks))
    assert (base.stream, stats, stats.prefill_seconds) == (PROMPT[:2], Stats(), 2.5)


def test_prefill_and_decode_time_are_kept_apart() -> None:
    ticks = iter([1.0, 3.0, 10.0, 10.5])
    stats = run(base_saying(REPLY), None, PROMPT, Options(k=0, max_tokens=4), clock=lambda: next(ticks))
    assert (stats.prefill_seconds, stats.decode_seconds) == (2.0, 0.5)
