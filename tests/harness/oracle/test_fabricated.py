"""The oracle against the fabricator: two ways to compute what a container says and a pack drafts, which share no arithmetic."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from harness.defaults import DEFAULT_RECIPE
from harness.fabricate.certificate import FILE_NAME, Certificate
from harness.fabricate.located import Located
from harness.fabricate.recipe import read_recipe
from harness.fabricate.store import fabricate
from harness.oracle.container64 import read_container
from harness.oracle.pack64 import read_pack
from harness.oracle.packs import FLOAT32_MARGIN
from harness.oracle.qwen3_64 import Qwen3
from harness.oracle.speakers import Drafter, Speaker
from harness.records.expectation import Block
from harness.records.files import read_json
from harness.records.fixture import Fixture, Stream

COMPANIONS = ("five", "text", "tie")
PACKS = ("mixed", "always", "never", "mixed2", "flip2", "twin2", "window1", "five:deep")


@pytest.fixture(scope="module")
def fixture() -> Fixture:
    return fabricate(DEFAULT_RECIPE)


@pytest.fixture(scope="module")
def speakers(fixture: Fixture) -> dict[str, Speaker]:
    """Return the speaker of each container, told what it will be asked."""
    found = {}
    for one in (fixture, *fixture.companions):
        found[one.name] = Speaker(functools.partial(_model, one.model))
        found[one.name].guess([stream.prompt_ids + stream.reply_ids for stream in one.streams])
    return found


def _model(directory: str) -> Qwen3:
    return Qwen3(read_container(Path(directory)))


def own(fixture: Fixture, pack: str) -> tuple[Fixture, str]:
    """Return the recipe that a pack's name belongs to, and what the pack is called there."""
    companion, _, name = pack.rpartition(":")
    return fixture.companion(companion) if companion else fixture, name


def blocks(fixture: Fixture, speakers: dict[str, Speaker], pack: str) -> dict[Stream, list[Block]]:
    """Return what the oracle drafts behind each token of each reply but the last."""
    owner, _ = own(fixture, pack)
    drafter = Drafter(lambda: read_pack(Located(fixture).pack(pack)), speakers[owner.name])
    places = {one: range(len(one.prompt_ids) + 1, len(one.prompt_ids) + len(one.reply_ids)) for one in owner.streams}
    return {one: drafter.draft([(one.prompt_ids + one.reply_ids)[:end] for end in ends]) for one, ends in places.items()}


def num_right(block: Block, coming: tuple[int, ...]) -> int:
    right = [one == other for one, other in zip(block.drafts, coming, strict=False)]
    return right.index(False) if False in right else len(right)


@pytest.mark.parametrize("name", ["tiny", *COMPANIONS])
def test_the_oracle_says_every_stream_of_each_container(fixture: Fixture, speakers: dict[str, Speaker], name: str) -> None:
    owner = fixture if name == fixture.name else fixture.companion(name)
    said = speakers[name].say([(one.prompt_ids, len(one.reply_ids)) for one in owner.streams])
    assert [tuple(choice.token for choice in choices) for choices in said] == [one.reply_ids for one in owner.streams]
    assert all(choice.is_behind_padding for choices in said for choice in choices)
    assert min(choice.margin for choices in said for choice in choices) > FLOAT32_MARGIN


def test_the_oracle_sees_a_tie_wherever_the_tie_container_is_certified_for_one(
    fixture: Fixture, speakers: dict[str, Speaker]
) -> None:
    owner = fixture.companion("tie")
    certified = read_json(Path(owner.model) / FILE_NAME, Certificate).model.ties
    for stream in owner.streams:
        (choices,) = speakers["tie"].say([(stream.prompt_ids, len(stream.reply_ids))])
        want = sorted(place for tie in certified for place in tie.places.get(stream.name, []))
        assert [place for place, choice in enumerate(choices) if choice.is_tie] == want
        assert len(want) > 1


@pytest.mark.parametrize("pack", PACKS)
def test_the_oracle_accepts_at_each_anchor_what_the_pack_is_certified_for(
    fixture: Fixture, speakers: dict[str, Speaker], pack: str
) -> None:
    owner, name = own(fixture, pack)
    table = read_json(Path(owner.model) / FILE_NAME, Certificate).packs[name].accept_table
    for stream, drafted in blocks(fixture, speakers, pack).items():
        room = range(len(stream.reply_ids) - 1, 0, -1)
        got = [num_right(block, stream.reply_ids[place:]) for place, block in enumerate(drafted, 1)]
        assert got == [min(one, left) for one, left in zip(table[stream.name], room, strict=True)], stream.name
        deciding = [block.margins[: accepted + 1] for block, accepted in zip(drafted, got, strict=True)]
        assert min(min(margins) for margins in deciding) > FLOAT32_MARGIN


def test_the_oracle_drafts_the_same_ids_with_the_identity_twin_as_with_its_original(
    fixture: Fixture, speakers: dict[str, Speaker]
) -> None:
    (identity,) = read_recipe(DEFAULT_RECIPE).identities
    first, second = (blocks(fixture, speakers, pack) for pack in (identity.of, identity.name))
    assert [[one.drafts for one in drafted] for drafted in first.values()] == [
        [one.drafts for one in drafted] for drafted in second.values()
    ]
    assert read_pack(Located(fixture).pack(identity.name)).selector is not None
