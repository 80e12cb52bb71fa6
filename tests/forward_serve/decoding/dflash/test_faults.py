"""The packs of these tests can see what they are for: each fault of a drafter moves hidden rows or drafts far."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.forward_serve.decoding.dflash.conftest import CONFIG, changed, random_tensors
from tests.forward_serve.decoding.dflash.faults import FAULTS, Fault, with_fault
from tests.forward_serve.decoding.dflash.reference import PlainDrafter
from tests.forward_serve.decoding.dflash.session import Round, again, play
from tests.forward_serve.decoding.dflash.stand_ins import BOUND, Target
from tests.forward_serve.decoding.dflash.variants import VARIANTS

VISIBLE = 0.1  # five thousand times the tolerance between engine and reference


def drafter_of(variant: str, kind: type[PlainDrafter]) -> PlainDrafter:
    """A drafter of the pack that test_against_reference compares under this name."""
    config = changed(CONFIG, VARIANTS[variant])
    target = Target(config)
    return kind(config, random_tensors(config, len(variant)), target.table, target.lm_head, BOUND)


@pytest.fixture(scope="module")
def right() -> Callable[[str], list[Round]]:
    """The reply that the plain drafter itself plays, once for each variant."""
    played: dict[str, list[Round]] = {}

    def rounds(variant: str) -> list[Round]:
        if variant not in played:
            played[variant] = play(drafter_of(variant, PlainDrafter))
        return played[variant]

    return rounds


def is_seen(want: Round, got: Round) -> bool:
    return want.drafts != got.drafts or bool(np.abs(want.hidden - got.hidden).max() > VISIBLE)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_seen(right: Callable[[str], list[Round]], fault: Fault) -> None:
    want = right(fault.variant)
    got = again(drafter_of(fault.variant, with_fault(fault).PlainDrafter), want)
    seen = [is_seen(*pair) for pair in zip(want, got, strict=True)]
    assert any(seen)
    assert not (seen[0] and fault.only_later)


def test_drafter_without_a_fault_is_itself(right: Callable[[str], list[Round]]) -> None:
    want = right("full")
    nothing = Fault("nothing", {})
    got = again(drafter_of("full", with_fault(nothing).PlainDrafter), want)
    assert [is_seen(*pair) for pair in zip(want, got, strict=True)] == [False] * len(want)


def test_edit_that_finds_no_line_is_an_error() -> None:
    with pytest.raises(AssertionError, match="gone: 'no such line' stands 0 times"):
        with_fault(Fault("gone", {"no such line": ""}))
