from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.oracle.arithmetic64 import Readout
from harness.oracle.pack64 import Pack64, read_pack
from harness.oracle.qwen3_64 import Ids, Passed, Qwen3
from harness.oracle.speakers import Drafter, Speaker, longest
from tests.harness.oracle.golden import DFLASH
from tests.harness.oracle.test_qwen3_64 import random_container

PROMPT = (3, 1, 4)


class Counted(Qwen3):
    """A model that counts the sequences that it runs."""

    num_sequences = 0

    def forward(self, sequences: Sequence[Ids]) -> tuple[Passed, ...]:
        self.num_sequences += len(sequences)
        return super().forward(sequences)


def speaker(seed: int = 0) -> Speaker:
    return Speaker(lambda: Counted(random_container(seed)))


def step_by_step(seed: int, prompt: Ids, count: int) -> list[int]:
    model, ids = Qwen3(random_container(seed)), list(prompt)
    for _ in range(count):
        (passed,) = model.forward([tuple(ids)])
        ids.append(int(np.argmax(passed.scores[-1][: model.container.bound])))
    return ids[len(prompt) :]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 50), right=st.integers(0, 8), wrong=st.lists(st.integers(0, 19), max_size=4))
def test_a_guess_right_for_a_while_or_never_changes_nothing_of_what_is_said(seed: int, right: int, wrong: list[int]) -> None:
    want = step_by_step(seed, PROMPT, 8)
    one = speaker(seed)
    one.guess([(*PROMPT, *want[:right], *wrong)])
    ((*got,),) = one.say([(PROMPT, 8)])
    assert [choice.token for choice in got] == want


def test_a_right_guess_costs_one_forward_and_what_was_said_costs_none() -> None:
    one = speaker()
    reply = tuple(step_by_step(0, PROMPT, 8))
    one.guess([PROMPT + reply, PROMPT + reply[:3]])
    first = one.say([(PROMPT, 8), (PROMPT + reply[:2], 5)])
    assert one.model.num_sequences == 1  # type: ignore[attr-defined]
    one.forget_sequences()
    assert one.say([(PROMPT, 8), (PROMPT + reply[:2], 5)]) == first
    assert one.model.num_sequences == 1  # type: ignore[attr-defined]


def with_head(one: Speaker, **rows: list[int]) -> Speaker:
    """The speaker of a model whose head rows `to` are copies of the rows `of`."""
    head = one.model.container.head.copy()
    head[rows["to"]] = head[rows["of"]]
    return Speaker(lambda: Qwen3(dataclasses.replace(one.model.container, head=head)))


def test_rows_that_no_token_owns_may_score_best_and_are_never_said() -> None:
    one = speaker()
    ((choice,),) = one.say([(PROMPT, 1)])
    assert (choice.token < 18, choice.is_behind_padding) == (True, False)
    container = one.model.container
    louder = container.head.copy()
    louder[19] = louder[choice.token] * 2
    ((got,),) = Speaker(lambda: Qwen3(dataclasses.replace(container, head=louder))).say([(PROMPT, 1)])
    assert (got.token, got.margin, got.is_behind_padding) == (choice.token, choice.margin, True)


def test_of_two_ids_with_one_row_the_lower_is_said_and_the_tie_is_told() -> None:
    ((choice,),) = speaker().say([(PROMPT, 1)])
    higher, lower = choice.token, (choice.token - 1) % 18
    ((got,),) = with_head(speaker(), of=[higher], to=[lower]).say([(PROMPT, 1)])
    assert (got.token, got.is_tie, choice.is_tie) == (min(higher, lower), True, False)
    assert got.margin >= choice.margin > 0


def test_longest_drops_beginnings_and_repetitions() -> None:
    assert longest([(1, 2), (1, 2, 3), (1,), (2,), (1, 2, 3), (1, 20)]) == [(1, 2, 3), (1, 20), (2,)]
    assert longest([]) == []


@pytest.fixture(scope="module", params=["first-sliding-then-full", "second-sliding"])
def pack(request: pytest.FixtureRequest) -> Pack64:
    return read_pack(DFLASH / request.param)


def target() -> Speaker:
    return Speaker(lambda: Qwen3(random_container(7, hidden=16, vocab=32)))


def with_two_layers(pack: Pack64) -> Pack64:
    """The pack with taps that a target of two layers has; the weights fit as they are."""
    return dataclasses.replace(pack, taps=(1, 0, 1))


def test_a_block_depends_on_the_sequence_up_to_its_token_alone(pack: Pack64) -> None:
    ids = tuple(np.random.default_rng(5).integers(0, 30, 20).tolist())
    together = Drafter(lambda: with_two_layers(pack), target())
    together._target.guess([ids, (*ids[:12], 9, 9, 9)])
    prefixes = [ids[:size] for size in (19, 4, 12, 7)]
    for prefix, got in zip(prefixes, together.draft(prefixes), strict=True):
        (alone,) = Drafter(lambda: with_two_layers(pack), target()).draft([prefix])
        assert got.drafts == alone.drafts
        assert got.margins == pytest.approx(alone.margins, abs=1e-9)


def test_a_block_that_was_drafted_is_remembered_without_its_sequence(pack: Pack64) -> None:
    one = Drafter(lambda: with_two_layers(pack), Speaker(lambda: Counted(random_container(7, hidden=16, vocab=32))))
    (first,) = one.draft([(1, 2, 3)])
    one.forget_sequences()
    assert one.draft([(1, 2, 3), (1, 2, 3)]) == [first, first]
    assert one._target.model.num_sequences == 1  # type: ignore[attr-defined]


def test_what_is_recalled_is_told_without_a_model_that_can_be_read(pack: Pack64) -> None:
    model = target()
    ids = (1, 2, 3, 4, 5)
    (said,) = model.say([(ids, 4)])
    blocks = dict(enumerate(Drafter(lambda: with_two_layers(pack), model).draft([ids[:1], ids[:2]])))

    def unreadable() -> Any:
        raise AssertionError("it was read")

    speaker = Speaker(unreadable)
    speaker.recall(ids, said)
    drafter = Drafter(unreadable, speaker)
    drafter.recall(ids, blocks)
    assert speaker.say([(ids, 4), (ids, 2)]) == [said, said[:2]]
    assert drafter.draft([ids[:2], ids[:1]]) == [blocks[1], blocks[0]]
    assert (speaker.is_read, drafter.is_read, model.is_read) == (False, False, True)
    with pytest.raises(AssertionError, match="it was read"):
        speaker.say([(ids, 5)])
    with pytest.raises(AssertionError, match="it was read"):
        drafter.draft([ids[:3]])


def test_drafts_stay_below_the_bound_of_the_target(pack: Pack64) -> None:
    container = random_container(7, hidden=16, vocab=32)
    head = container.head.copy()
    head[30:] *= 50  # padding, louder than everything
    loud = Speaker(lambda: Qwen3(dataclasses.replace(container, head=head)))
    (block,) = Drafter(lambda: with_two_layers(pack), loud).draft([(1, 2, 3, 4)])
    assert max(block.drafts) < 30
    assert Readout(head).scores(np.ones((1, 16))).shape == (1, 32)
