"""The draft head against the plain drafter, over replies with full, partial and no accepts, in every configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from forward_serve.decoding.dflash import DFlashHead, DFlashPack, open_pack
from forward_serve.decoding.dflash.trunk import DraftTrunk
from forward_serve.decoding.loop import Options, run
from tests.forward_serve.decoding.dflash.conftest import SECOND, Tensors, second_tensors
from tests.forward_serve.decoding.dflash.reference import Array, PlainDrafter
from tests.forward_serve.decoding.dflash.session import PROMPT, Round, play, reply_of
from tests.forward_serve.decoding.dflash.stand_ins import BOUND, Sink, TappedBase, Target
from tests.forward_serve.decoding.dflash.variants import SCALED, VARIANTS

TOLERANCE = 2e-5  # of hidden rows of root mean square 1, float32 against float64


@dataclass(frozen=True, slots=True)
class Case:
    """One pack, the target around it, and what the plain drafter makes of both."""

    pack: DFlashPack
    config: dict[str, Any]
    target: Target
    drafter: PlainDrafter


@pytest.fixture(params=VARIANTS)
def case(request: pytest.FixtureRequest, write_pack: Any) -> Case:
    directory, config, tensors = write_pack(VARIANTS[request.param], seed=len(request.param))
    target = Target(config)
    drafter = PlainDrafter(config, tensors, target.table, target.lm_head, BOUND)
    return Case(open_pack(directory), config, target, drafter)


def hidden_rows(pack: DFlashPack, target: Target, config: dict[str, Any], rounds: Sequence[Round]) -> list[Array]:
    """What the engine's trunk makes of the same reply."""
    trunk, sink = DraftTrunk(pack), Sink(config)
    context = trunk.new_context()
    sink.run(PROMPT)
    found = []
    for one in rounds:
        assert len(sink) == one.start
        trunk.extend(context, sink.rows(context.num_positions, len(sink)))
        found.append(trunk.block(context, target.embed([one.anchor] + [pack.config.mask_token_id] * (pack.block_size - 1))))
        sink.run([one.anchor, *one.drafts])
        sink.truncate(one.start + one.num_kept)
    return found


def test_hidden_rows_and_drafts_of_every_round_are_the_reference_s(case: Case) -> None:
    rounds = play(case.drafter)
    got = hidden_rows(case.pack, case.target, case.config, rounds)
    for one, rows in zip(rounds, got, strict=True):
        np.testing.assert_allclose(rows, one.hidden, atol=TOLERANCE)
    assert case.drafter.smallest_gap > 10 * TOLERANCE

    num_drafts = case.pack.block_size - 1
    reply = [*reply_of(rounds), *[9] * num_drafts]
    tokens: list[int] = []

    def deliver(token: int) -> bool:
        tokens.append(token)
        return True

    sink, target = Sink(case.config), Target(case.config)
    options = Options(k=num_drafts, max_tokens=len(reply), deliver=deliver)
    stats = run(TappedBase(list(PROMPT), reply, sink), DFlashHead(case.pack, target, sink), PROMPT, options)
    assert tokens == reply
    assert stats.per_round[: len(rounds)] == [(one.drafts, one.num_kept - 1) for one in rounds]
    assert all(len(ids) == case.pack.block_size for ids in target.embedded)


def test_selector_decides_most_drafts_against_the_best_logit(write_pack: Any) -> None:
    _, config, tensors = write_pack(SECOND)
    target = Target(config)
    drafter = PlainDrafter(config, tensors, target.table, target.lm_head, BOUND)
    counts = [0] * BOUND  # of drafts by their rank among the slot's logits
    for one in play(drafter):
        for row, draft in zip(one.hidden[1:], one.drafts, strict=True):
            z = drafter.logits(row)
            counts[sum(logit > z[draft] for logit in z)] += 1
    assert counts[4:] == [0] * (BOUND - 4)
    assert min(counts[:4]) >= 3
    assert sum(counts[1:4]) > counts[0]


def as_generation_1(tensors: Tensors, config: dict[str, Any]) -> None:
    """Set what generation 2 adds so that it does nothing."""
    for name in second_tensors(config, np.random.default_rng(0)):
        if name.endswith("base_kernel"):
            tensors[name][:] = 0
            tensors[name][:, 0] = 1
        elif name.endswith(("kernel_projection.weight", "successor_codebook")):
            tensors[name][:] = 0


@pytest.mark.parametrize("changes", [{}, SCALED], ids=["plain", "scaled-and-capped"])
def test_identity_setting_of_generation_2_is_its_generation_1_twin_to_the_bit(write_pack: Any, changes: dict[str, Any]) -> None:
    directory, first_config, first_tensors = write_pack(changes)
    first = open_pack(directory)
    target = Target(first_config)
    rounds = play(PlainDrafter(first_config, first_tensors, target.table, target.lm_head, BOUND))

    second_changes = {**SECOND, **changes}
    _, second_config, _ = write_pack(second_changes)
    directory, _, tensors = write_pack(second_changes, edit=lambda tensors: as_generation_1(tensors, second_config))
    second = open_pack(directory)
    assert all(np.array_equal(tensors[name], tensor) for name, tensor in first_tensors.items())
    assert (first.selector is None, second.selector is None) == (True, False)

    want = hidden_rows(first, target, first_config, rounds)
    got = hidden_rows(second, target, second_config, rounds)
    assert all(np.array_equal(*rows) for rows in zip(want, got, strict=True))

    sink = Sink(first_config)
    sink.run(PROMPT)
    for one in rounds:
        heads = [DFlashHead(pack, target, sink) for pack in (first, second)]
        drafts = [head.propose(one.anchor, one.start, len(one.drafts), None) for head in heads]
        assert drafts == [list(one.drafts)] * 2
        sink.run([one.anchor, *one.drafts[: one.num_kept - 1]])


@pytest.mark.parametrize("changes", [{}, SECOND], ids=["first", "second"])
def test_context_taken_in_one_call_or_in_many_is_the_same(write_pack: Any, changes: dict[str, Any]) -> None:
    directory, config, _ = write_pack(changes)
    pack, target, sink = open_pack(directory), Target(config), Sink(config)
    sink.run([position % BOUND for position in range(600)])  # beyond the first capacity of the store
    trunk = DraftTrunk(pack)
    at_once, in_parts = trunk.new_context(), trunk.new_context()
    trunk.extend(at_once, sink.rows(0, 600))
    for start, stop in [(0, 1), (1, 250), (250, 255), (255, 300), (300, 600)]:
        trunk.block(in_parts, target.table[:6])  # what a block leaves behind must not stay
        trunk.extend(in_parts, sink.rows(start, stop))
    block = target.table[[5] + [29] * 5]
    np.testing.assert_allclose(trunk.block(at_once, block), trunk.block(in_parts, block), atol=1e-5)
