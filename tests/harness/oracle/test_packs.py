from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.oracle.loop import Rules, Said, Step, Trace
from harness.oracle.packs import Journey, pack_path, path_without_taps, places_of
from harness.records.expectation import Block

PROMPT = (30, 31)
REPLY = (1, 2, 3, 4, 5, 6)
SEQUENCE = PROMPT + REPLY


def block(*drafts: int, margins: tuple[float, ...] = ()) -> Block:
    return Block(drafts, margins or (0.5,) * len(drafts))


def journey(k: int = 3, budget: int = 6, end_token: int | None = None, **rules: float) -> Journey:
    said = Said(REPLY, budget, end_token=end_token)
    return Journey(PROMPT, said, Rules(k, **rules))  # type: ignore[arg-type]  # a window is a whole number


def test_rounds_follow_the_blocks_behind_the_tokens_where_they_begin() -> None:
    got = pack_path(journey(), {2: block(2, 9, 4), 4: block(4, 5, 6)})
    assert got is not None
    assert got.trace == Trace((Step(0, True, (2, 9, 4), 1), Step(2, True, (4, 5, 6), 3)), 0, None)


def test_a_smaller_k_uses_the_first_slots_of_the_same_block() -> None:
    got = pack_path(journey(k=1), {2: block(2, 9), 4: block(9, 5), 5: block(5, 6), 7: block(9, 9)})
    assert got is not None
    assert [step.drafts for step in got.trace.rounds] == [(2,), (9,), (5,)]
    assert got.trace.last == 1


def test_a_place_without_a_block_is_no_path() -> None:
    assert pack_path(journey(), {2: block(2, 9, 4)}) is None


def test_margins_are_those_of_drafts_that_were_proposed_and_of_slots_that_decide() -> None:
    first = block(2, 9, 4, 5, margins=(0.4, 0.3, 0.2, 0.1))  # one accepted: slots 1 and 2 decide, the fourth is not used
    got = pack_path(journey(), {2: first, 4: block(4, 5, 6, 7, margins=(0.9, 0.8, 0.7, 0.0))})
    assert got is not None
    assert (got.margin, got.deciding_margin) == (0.2, 0.3)


def test_a_pack_that_never_lands_is_off_after_the_window() -> None:
    blocks = {place: block(9, 9, 9) for place in range(2, 8)}
    got = pack_path(journey(fallback_below=1.5, fallback_window=2), blocks)
    assert got is not None
    assert (got.trace.fallback, len(got.trace.rounds), got.trace.num_plain, got.trace.last) == (2, 2, 3, 1)


def test_a_resumed_request_decodes_with_plain_steps_though_it_is_asked_each_time() -> None:
    got = path_without_taps(journey(fallback_below=9, fallback_window=1))
    assert (got.num_plain, got.was_asked, got.fallback, got.last) == (5, True, None, 1)


def test_drafts_may_be_asked_for_behind_every_token_but_one_that_ends_the_reply() -> None:
    assert places_of(PROMPT, Said(REPLY, 6)) == range(2, 7)
    assert places_of(PROMPT, Said(REPLY, 9, end_token=0)) == range(2, 8)
    assert places_of(PROMPT, Said((), 9, end_token=0)) == range(2, 2)


@settings(max_examples=60, deadline=None)
@given(
    rights=st.lists(st.integers(0, 4), min_size=6, max_size=6),
    k=st.integers(1, 5),
    budget=st.integers(1, 6),
    end=st.booleans(),
    below=st.sampled_from([0, 1.5, 3]),
)
def test_blocks_at_the_places_that_are_named_are_enough_for_every_walk(
    rights: list[int], k: int, budget: int, end: bool, below: float
) -> None:
    said = Said(REPLY[:budget], budget=9 if end else budget, end_token=50 if end else None)
    blocks = {
        place: block(*((*SEQUENCE, 50, 51, 52, 53)[place + 1 + at] if at < rights[place - 2] else 99 for at in range(4)))
        for place in places_of(PROMPT, said)
    }
    rules = Rules(k, fallback_below=below, fallback_window=2)
    got = pack_path(Journey(PROMPT, said, rules), blocks)
    assert got is not None
    assert len(got.trace.rounds) + got.trace.num_plain + got.trace.num_accepted + got.trace.last == budget
