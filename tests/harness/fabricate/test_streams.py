"""What each kind of stream promises, on the streams of the tiny recipe, and under other seeds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.fabricate.errors import FabricationError
from harness.fabricate.lookup import Rule, accept_lengths, propose, rounds, shows, text_of
from harness.fabricate.recipe import Recipe
from harness.fabricate.streams import Kind, StreamRecipe, make_streams
from harness.records.fixture import Stream

SEEDS = st.integers(0, 2**31)
LENGTHS = (16, 24)


def one(kind: Kind, seed: int) -> Stream:
    (stream,) = make_streams([StreamRecipe(kind, seed)], *LENGTHS)
    return stream


def texts(stream: Stream) -> tuple[str, str]:
    return text_of(stream.prompt_ids), text_of(stream.reply_ids)


@pytest.fixture(scope="module")
def streams(tiny_recipe: Recipe) -> tuple[Stream, ...]:
    return make_streams(tiny_recipe.streams, tiny_recipe.prompt_length, tiny_recipe.reply_length)


def test_the_tiny_recipe_holds_the_streams_that_plans_are_built_from(streams: tuple[Stream, ...]) -> None:
    assert [stream.name for stream in streams] == [
        *("main-1", "main-2", "main-3", "main-4", "repeat-1", "hit-1", "hit-2"),
        *("miss-1", "decoy-1", "constant-1", "burst-1"),
    ]
    assert {(len(stream.prompt_ids), len(stream.reply_ids)) for stream in streams} == {LENGTHS}


def test_all_ids_are_printable_ascii_and_replies_stay_below_90(streams: tuple[Stream, ...]) -> None:
    assert all(stream.prompt.isprintable() and stream.reply.isprintable() for stream in streams)
    assert max(token for stream in streams for token in stream.reply_ids) < 90


def test_replies_vary_and_one_repeats(streams: tuple[Stream, ...]) -> None:
    distinct = {stream.name: len(set(stream.reply_ids)) for stream in streams}
    assert all(distinct[f"main-{number}"] >= 12 for number in (1, 2, 3, 4))
    assert distinct["repeat-1"] == 6
    repeat = next(stream for stream in streams if stream.name == "repeat-1")
    assert repeat.reply_ids[6:] == repeat.reply_ids[:-6]


@pytest.mark.parametrize("k", [4, 7])
def test_the_two_hits_together_accept_every_length(streams: tuple[Stream, ...], k: int) -> None:
    hits = [stream for stream in streams if stream.role == Kind.HIT]
    assert {length for hit in hits for length in accept_lengths(*texts(hit), k)} == set(range(k + 1))


@pytest.mark.parametrize("rule", [rule for rule in Rule if rule is not Rule.RIGHT])
def test_the_hits_show_each_wrong_lookup_rule(streams: tuple[Stream, ...], rule: Rule) -> None:
    assert any(shows(*texts(stream), 4, rule) for stream in streams if stream.role == Kind.HIT)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([1, 4, 7, 15]))
def test_a_miss_never_proposes(seed: int, k: int) -> None:
    assert [step.drafts for step in rounds(*texts(one(Kind.MISS, seed)), k)] == [""] * 23


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([1, 4, 7, 15]))
def test_a_decoy_always_proposes_and_never_lands(seed: int, k: int) -> None:
    steps = list(rounds(*texts(one(Kind.DECOY, seed)), k))
    assert [bool(step.drafts) for step in steps] == [True] * 23
    assert [step.accepted for step in steps] == [0] * 23


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([4, 7]))
def test_a_constant_gives_one_plain_step_and_rounds_of_two_tokens(seed: int, k: int) -> None:
    stream = one(Kind.CONSTANT, seed)
    assert len(set(stream.reply_ids)) == 1
    assert stream.reply_ids[0] not in stream.prompt_ids
    assert [len(step.drafts) for step in rounds(*texts(stream), k)] == [0, *[1] * 11]
    assert accept_lengths(*texts(stream), k) == [1] * 11


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_burst_lands_two_whole_rounds_and_then_nothing_while_lookup_proposes(seed: int) -> None:
    prompt, reply = texts(one(Kind.BURST, seed))
    steps = list(rounds(prompt, reply, 4))
    assert [step.accepted for step in steps] == [4, 4, *[0] * 13]
    assert all(step.drafts for step in steps)
    # whatever k is and wherever a round starts, nothing lands behind the copy
    assert all(propose(prompt + reply[:at], 1) not in ("", reply[at]) for at in range(10, 24))


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_the_same_seed_gives_the_same_stream(seed: int) -> None:
    for kind in (Kind.MAIN, Kind.REPEAT, Kind.BURST):
        assert one(kind, seed) == one(kind, seed)


def test_two_streams_of_one_seed_have_one_prompt_and_are_refused() -> None:
    with pytest.raises(FabricationError, match="stream main-2: its prompt equals that of main-1"):
        make_streams([StreamRecipe(Kind.MAIN, 1)] * 2, *LENGTHS)
