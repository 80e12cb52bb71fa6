"""Faults planted in the second drafter: it agrees with the first when nothing is wrong, and each fault is what its name says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness.fabricate.block_faults import BLOCK_FAULTS, WindowIgnored
from harness.fabricate.choice_faults import CHOICE_FAULTS, SelectorFault, TransformFault
from harness.fabricate.context_faults import CONTEXT_FAULTS, TapsSorted
from harness.fabricate.conv_faults import CONV_FAULTS
from harness.fabricate.draft_shape import DraftShape, Generation2
from harness.fabricate.draft_trunk import DynamicsDials, random_draft
from harness.fabricate.errors import FabricationError, UnshownError
from harness.fabricate.pack import read_pack
from harness.fabricate.pack_certificate import Drafter
from harness.fabricate.prescription import prescribe
from harness.fabricate.recipe import read_recipe
from harness.fabricate.schedule import accepted_lengths
from harness.fabricate.sensitivity import Fault, Place, Shown, name_of, planted, require_shown
from harness.fabricate.teacher import Teacher
from harness.fabricate.trunk import TrunkDials
from harness.records.fixture import Fixture

FULL = DraftShape(intermediate=64, layers=2, heads=4, kv_heads=2, head_dim=16, taps=(0, 1), block_size=5, mask_token_id=250)
SECOND = msgspec.structs.replace(
    FULL,
    taps=(1, 0),
    window=9,
    generation_2=Generation2(selector_rank=4, selector_top_k=4),
    output_multiplier=0.25,
    final_logit_softcapping=2.0,
    input_embedding_scale=2.0,
)
SLIDING = msgspec.structs.replace(FULL, window=9, full_layers=(1,))
EVERYTHING: tuple[Fault, ...] = (*CONTEXT_FAULTS, *BLOCK_FAULTS, *CONV_FAULTS, *CHOICE_FAULTS)


@pytest.fixture(scope="module")
def teacher(small: Fixture, small_path: Path) -> Teacher:
    return Teacher.read(Path(small.model), read_recipe(small_path).model, small.streams)


def drafter_of(shape: DraftShape, teacher: Teacher) -> Drafter:
    """Return a random pack, nothing fitted, whose selector has a lot to say."""
    dials = DynamicsDials(conv_delta=0.4, successors=2.0)
    return Drafter(random_draft(shape, teacher.shape, TrunkDials(fast_pairs=3, output_gain=3.0), dials, 1), shape, teacher)


def shown_by(drafter: Drafter, small: Fixture) -> dict[str, Shown]:
    drafts = drafter.choices().drafts.reshape(*drafter.teacher.script.replies[:, :-1].shape, -1)
    lengths = accepted_lengths(drafts, drafter.teacher.script.replies)
    return planted("random", drafter, lengths, small.streams)


@pytest.mark.parametrize("shape", [FULL, SLIDING, SECOND], ids=["full", "sliding and full", "generation 2"])
def test_both_drafters_agree_on_a_random_pack_and_most_faults_show(shape: DraftShape, teacher: Teacher, small: Fixture) -> None:
    shown = shown_by(drafter_of(shape, teacher), small)
    assert np.mean([one.ids is not None for one in shown.values()]) > 0.8


def test_a_second_drafter_that_disagrees_stops_the_fabrication(teacher: Teacher, small: Fixture) -> None:
    drafter = drafter_of(FULL, teacher)
    drafts = drafter.choices().drafts.reshape(*teacher.script.replies[:, :-1].shape, -1)
    lengths = accepted_lengths(drafts, teacher.script.replies)
    misled = Drafter(drafter.weights, msgspec.structs.replace(FULL, rope_theta=10_000), teacher)

    class Mixed:
        weights, shape = misled.weights, misled.shape
        teacher = drafter.teacher
        choices = drafter.choices

    with pytest.raises(FabricationError, match="pack mixed, main-1: two ways to run it draft differently"):
        planted("mixed", Mixed(), lengths, small.streams)  # type: ignore[arg-type]


def test_faults_apply_to_the_packs_that_could_show_them() -> None:
    def names(shape: DraftShape) -> set[str]:
        return {name_of(one) for one in EVERYTHING if one.applies(shape, 31)}

    full, sliding, second = names(FULL), names(SLIDING), names(SECOND)
    assert not {"window-ignored", "selector-ignored", "delta-dropped", "taps-sorted", "sliding-not-causal"} & full
    assert sliding - full == {"sliding-not-causal", "window-ignored", "window-one-more", "window-one-less", "every-layer-slides"}
    assert {"taps-sorted", "sliding-causal", "cap-dropped", "embedding-not-scaled", "delta-dropped"} <= second - full
    assert not WindowIgnored.applies(SECOND, 9)
    assert not TapsSorted.applies(FULL, 31)
    assert not TransformFault.applies(msgspec.structs.replace(SECOND, output_multiplier=1.0), 31)
    assert SelectorFault.applies(SECOND, 31)


def test_every_fault_has_a_name_of_its_own_and_says_what_it_does() -> None:
    names = [name_of(one) for one in EVERYTHING]
    assert len(set(names)) == len(names) > 65
    assert name_of(TapsSorted) == "taps-sorted"
    assert len({one.__doc__ for one in EVERYTHING}) == len(EVERYTHING)


def test_a_fault_that_no_pack_shows_is_refused_unless_it_is_named_as_shown_elsewhere() -> None:
    seen, blind = Shown(Place("main-1", 0), None), Shown()
    require_shown({"a": {"taps-reversed": seen, "no-cut": blind}, "b": {"no-cut": seen}}, ())
    require_shown({"a": {"no-cut": blind}}, ("no-cut",))
    with pytest.raises(UnshownError, match=r"sight\.packs=\['a', 'b'\]: no pack shows no-cut") as found:
        require_shown({"a": {"taps-reversed": seen}, "b": {"no-cut": blind}}, ())
    assert found.value.pack == "b"  # the one that could show it
    with pytest.raises(FabricationError, match=r"sight\.blind: no-such are no faults of a reader"):
        require_shown({"a": {}}, ("no-such",))


def test_a_prescribed_pack_shows_counts_too(small: Fixture, small_path: Path, teacher: Teacher) -> None:
    pack = read_recipe(small_path).packs[0]
    drafter = Drafter(read_pack(Path(small.packs["mixed"])), pack.shape, teacher)
    shown = planted("mixed", drafter, prescribe(pack, teacher).lengths, small.streams)
    for fault in ("taps-reversed", "block-causal", "another-mask", "heads-tiled", "rejected-row-kept", "last-rows-kept"):
        assert shown[fault].ids is not None, fault
    assert np.mean([one.counts is not None for one in shown.values()]) > 0.5
    assert shown["rejected-row-kept"].ids != Place("main-1", 0)  # nothing was rejected before the first round
