"""Prompts derived from streams, and the choice of those on which a law can fail."""

from __future__ import annotations

import msgspec
import pytest

from harness.errors import UsageError
from harness.plans.streams import (
    continued,
    end_place,
    end_token,
    end_tokens,
    is_cut_in_block,
    joined,
    lookup_trace,
    widest_rounds,
)
from harness.records.fixture import Fixture, Stream
from tests.harness.checks.ideal import fixture

K = 4
SPINNING = Stream("spinning", "repeat", (50, 51, 52, 1, 2, 3), (1, 2, 3, 1, 2, 3, 1, 2, 3, 1))


def test_a_continued_stream_says_the_same_from_there() -> None:
    stream = fixture().stream("main-1")
    later = continued(stream, 7)
    assert (later.name, later.role) == ("main-1+7", "main")
    assert later.prompt_ids + later.reply_ids == stream.prompt_ids + stream.reply_ids
    assert len(later.prompt_ids) == len(stream.prompt_ids) + 7


def test_a_stream_continued_by_nothing_is_itself() -> None:
    stream = fixture().stream("main-1")
    assert continued(stream, 0) is stream


def test_joined_prompts_hold_prompts_and_replies_in_order() -> None:
    first, second = fixture().streams[:2]
    both = joined("both", (first, second))
    assert both.prompt_ids == first.prompt_ids + first.reply_ids + second.prompt_ids + second.reply_ids
    assert both.reply_ids == ()


def test_a_reply_that_copies_its_prompt_ends_inside_a_block_but_for_its_first_tokens() -> None:
    assert [size for size in range(1, 11) if not is_cut_in_block(SPINNING, 3, size)] == [1, 5, 9]


def test_the_widest_rounds_hold_exactly_k_drafts_and_land_some_best_first() -> None:
    found = widest_rounds(fixture().streams, 15, 40, 2)
    accepted = [sum(step.accepted for step in lookup_trace(stream, 15, 40).rounds if len(step.drafts) == 15) for stream in found]
    assert len(found) == 2
    assert accepted == sorted(accepted, reverse=True)
    assert min(accepted) > 0


def test_a_recipe_without_wide_rounds_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="recipe: 0 streams land drafts in a lookup round of 15; 1 are needed"):
        widest_rounds(fixture().of_role("miss"), 15, 40, 1)


@pytest.mark.parametrize(
    ("token", "place"),
    [(1, 0), (2, 1), (3, 2), (99, None)],
)
def test_the_place_of_a_token_is_that_of_the_first_block(token: int, place: int | None) -> None:
    assert end_place(SPINNING, token, 3) == place


def test_a_token_behind_an_accepted_block_is_the_next_t1() -> None:
    stream = Stream("x", "main", (50, 51, 52, 1, 2, 3), (1, 2, 3, 9))
    assert end_place(stream, 9, 2) == 0


def test_a_rejected_draft_that_comes_later_is_not_the_place() -> None:
    stream = Stream("x", "main", (7, 8, 9, 60), (7, 5, 8))  # 8 is proposed behind 7 and rejected; it comes as a t1 later
    assert end_place(stream, 8, 1) == 0


def test_the_end_token_falls_on_t1_and_on_each_draft_of_its_prompts() -> None:
    ended = end_token(fixture(), K)
    assert [end_place(prompt, ended.token, K) for prompt in ended.prompts] == [0, 1, 2, 3, 4]


def test_every_end_token_on_offer_covers_all_places() -> None:
    for ended in end_tokens(fixture(), K):
        assert [end_place(prompt, ended.token, K) for prompt in ended.prompts] == [0, 1, 2, 3, 4]


def test_a_recipe_without_a_repeating_or_copying_stream_is_refused_by_name() -> None:
    only_misses: Fixture = msgspec.structs.replace(fixture(), streams=fixture().of_role("miss"))
    with pytest.raises(
        UsageError, match=r"recipe: no token of a stream falls on t1 and on each of 4 drafts; add a stream of kind"
    ):
        end_token(only_misses, K)
