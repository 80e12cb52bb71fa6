"""Engine and plain drafter beside what the published `dflash` package did with the golden packs. Needs no torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.forward_serve.decoding.dflash.golden import (
    GOLDEN,
    TOLERANCE,
    GoldenTarget,
    Rounds,
    assert_equal,
    by_engine,
    config_of,
    layers_of,
    tensors_of,
)
from tests.forward_serve.decoding.dflash.reference import PlainDrafter

PACKS = sorted(path.parent for path in GOLDEN.glob("*/rounds.npz"))
NAMES = ["first-full", "first-sliding-then-full", "second-kernel-of-three-scaled", "second-sliding"]

of_each_pack = pytest.mark.parametrize("directory", PACKS, ids=lambda path: path.name)


def test_golden_packs_are_of_both_generations() -> None:
    assert [path.name for path in PACKS] == NAMES


@of_each_pack
def test_engine_drafts_what_the_package_drafted(directory: Path) -> None:
    rounds = Rounds.load(directory)
    assert_equal(by_engine(directory, rounds, GoldenTarget(config_of(directory))), rounds)


@of_each_pack
def test_plain_drafter_drafts_what_the_package_drafted(directory: Path) -> None:
    rounds, config = Rounds.load(directory), config_of(directory)
    target = GoldenTarget(config)
    drafter = PlainDrafter(config, tensors_of(directory / "model.safetensors"), target.table, target.lm_head, target.vocab_bound)
    drafter.commit(layers_of(rounds.prompt_taps, config), len(rounds.prompt_taps))
    for index, anchor in enumerate(rounds.anchors.tolist()):
        hidden = drafter.hidden(anchor)
        np.testing.assert_allclose(rounds.hidden[index], hidden, atol=TOLERANCE, rtol=0)
        assert drafter.drafts(hidden, anchor) == rounds.drafts[index].tolist()
        if drafter.is_second:
            found = [sorted(drafter.candidates(drafter.logits(row))) for row in hidden[1:]]
            assert found == rounds.candidates[index].tolist()
        drafter.commit(layers_of(rounds.pass_taps[index], config), rounds.accepted[index] + 1)
    assert drafter.smallest_gap > 5 * TOLERANCE


@of_each_pack
def test_golden_rounds_hold_full_partial_and_no_accepts_behind_a_prompt_longer_than_the_window(directory: Path) -> None:
    rounds, config = Rounds.load(directory), config_of(directory)
    num_drafts = rounds.drafts.shape[1]
    assert {0, 2, num_drafts} <= set(rounds.accepted.tolist())
    assert len(rounds.prompt_taps) > (config["sliding_window"] or 0)
    assert rounds.starts.tolist() == [
        len(rounds.prompt_taps) + sum(rounds.accepted[:index] + 1) for index in range(len(rounds.starts))
    ]
