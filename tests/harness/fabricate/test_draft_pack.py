"""Packs that do not do what is prescribed are refused; those of the small recipe land what their table says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.fabricate.errors import BoundError, FabricationError
from harness.fabricate.pack import read_pack
from harness.fabricate.pack_certificate import Drafter, certify_pack
from harness.fabricate.prescription import NEVER_TOKEN, Prescription, prescribe
from harness.fabricate.recipe import Behaviour, Bounds, PackRecipe, read_recipe
from harness.fabricate.schedule import accepted_lengths
from harness.fabricate.teacher import Teacher
from harness.records.fixture import Fixture


@pytest.fixture(scope="module")
def pack_recipe(small_path: Path) -> PackRecipe:
    return read_recipe(small_path).packs[0]


@pytest.fixture(scope="module")
def drafter(small: Fixture, small_path: Path, pack_recipe: PackRecipe) -> Drafter:
    teacher = Teacher.read(Path(small.model), read_recipe(small_path).model, small.streams)
    return Drafter(read_pack(Path(small.packs["mixed"])), pack_recipe.shape, teacher)


@pytest.fixture(scope="module")
def wanted(drafter: Drafter, pack_recipe: PackRecipe) -> Prescription:
    return prescribe(pack_recipe, drafter.teacher)


def test_the_written_pack_lands_what_its_table_says_at_every_anchor(drafter: Drafter, wanted: Prescription) -> None:
    drafts = drafter.choices().drafts.reshape(*wanted.lengths.shape, -1)
    np.testing.assert_array_equal(accepted_lengths(drafts, drafter.teacher.script.replies), wanted.lengths)
    assert set(wanted.lengths.ravel().tolist()) == {0, 1, 2, 3, 4}


def test_a_table_that_the_pack_does_not_follow_is_refused_with_its_place(
    small: Fixture, drafter: Drafter, wanted: Prescription
) -> None:
    lengths = wanted.lengths.copy()
    lengths[1, 4] += 1
    with pytest.raises(FabricationError, match=r"pack mixed, burst-1, after 5 tokens: . drafts would be accepted, . are"):
        certify_pack("mixed", drafter, Prescription(lengths, wanted.tokens), small.streams, Bounds(), 0.0)


def test_a_token_that_the_pack_does_not_propose_is_refused_with_its_place(
    small: Fixture, drafter: Drafter, wanted: Prescription
) -> None:
    tokens = wanted.tokens.copy()
    tokens[0, 2, 0] = 92
    with pytest.raises(FabricationError, match=r"pack mixed, main-1, after 3 tokens, slot 1: proposes id \d+, not 92"):
        certify_pack("mixed", drafter, Prescription(wanted.lengths, tokens), small.streams, Bounds(), 0.0)


def test_a_slot_that_float32_could_turn_is_refused(small: Fixture, drafter: Drafter, wanted: Prescription) -> None:
    bounds = Bounds(any_slot_float32=1e9)
    with pytest.raises(FabricationError, match=r"pack mixed, any slot: the smallest margin is .* times what float32 moves"):
        certify_pack("mixed", drafter, wanted, small.streams, bounds, 0.0)


def test_a_slot_that_a_device_could_turn_is_refused(small: Fixture, drafter: Drafter, wanted: Prescription) -> None:
    bounds = Bounds(device=1e9)
    with pytest.raises(BoundError, match=r"pack mixed: the smallest margin is .* times what bf16 device moves, want 1000000000"):
        certify_pack("mixed", drafter, wanted, small.streams, bounds, 0.0)


def test_never_prescribes_one_unused_token_and_always_the_reply(drafter: Drafter, pack_recipe: PackRecipe) -> None:
    def of(behaviour: Behaviour) -> Prescription:
        recipe = PackRecipe(pack_recipe.name, behaviour, 1, pack_recipe.shape)
        return prescribe(recipe, drafter.teacher)

    never, always = of(Behaviour.NEVER), of(Behaviour.ALWAYS)
    replies = drafter.teacher.script.replies
    assert set(never.tokens.ravel().tolist()) == {NEVER_TOKEN}
    assert NEVER_TOKEN not in replies
    assert set(never.lengths.ravel().tolist()) == {0}
    np.testing.assert_array_equal(always.tokens[:, 0], replies[:, 1:5])
    assert always.lengths[0].tolist() == [4] * 12 + [3, 2, 1]


def test_an_identity_of_generation_two_drafts_what_its_original_does(small: Fixture, small_path: Path, drafter: Drafter) -> None:
    (twin,) = [pack for pack in read_recipe(small_path).all_packs if pack.name == "mixed2"]
    assert twin.shape.generation_2 is not None
    other = Drafter(read_pack(Path(small.packs["mixed2"])), twin.shape, drafter.teacher).choices()
    np.testing.assert_array_equal(other.drafts, drafter.choices().drafts)
    np.testing.assert_array_equal(other.logits, drafter.choices().logits)
    assert np.count_nonzero(other.inside) == other.drafts.size * 5


def test_a_selector_that_must_decide_and_does_not_is_refused(small: Fixture, drafter: Drafter, wanted: Prescription) -> None:
    deciding = Prescription(wanted.lengths, wanted.tokens, selected=True)
    with pytest.raises(FabricationError, match=r"pack mixed: the selector decides 0\.0000 of the slots, want all"):
        certify_pack("mixed", drafter, deciding, small.streams, Bounds(), 0.0)
