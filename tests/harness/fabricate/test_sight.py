"""What a recipe asks to be seen: refused where it is not, and empty where nothing is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.fabricate.errors import FabricationError
from harness.fabricate.recipe import Sight, read_recipe
from harness.fabricate.sight import SightCertificate, certify_sight
from harness.fabricate.streams import Kind, StreamRecipe, make_streams
from harness.fabricate.teacher import Teacher
from harness.records.fixture import Fixture


@pytest.fixture(scope="module")
def teacher(small: Fixture, small_path: Path) -> Teacher:
    return Teacher.read(Path(small.model), read_recipe(small_path).model, small.streams)


def test_a_recipe_that_asks_nothing_has_an_empty_certificate(teacher: Teacher, small: Fixture) -> None:
    assert certify_sight(Sight(), teacher, small.streams, {}) == SightCertificate()


@pytest.mark.parametrize("k", [4, 7])
def test_a_wrong_rule_of_lookup_that_no_stream_shows_is_refused(teacher: Teacher, k: int) -> None:
    streams = make_streams([StreamRecipe(Kind.MISS, 1)], 16, 24)
    with pytest.raises(FabricationError, match=rf"sight\.lookup={k}: no stream shows earliest; add a stream of kind hit"):
        certify_sight(Sight(lookup=(k,)), teacher, streams, {})


def test_where_wrong_rules_of_lookup_show_is_listed_by_width_rule_and_stream(teacher: Teacher) -> None:
    streams = make_streams([StreamRecipe(Kind.HIT, 6), StreamRecipe(Kind.MISS, 1)], 16, 24)
    found = certify_sight(Sight(lookup=(4, 7)), teacher, streams, {}).lookup
    rules = {"earliest", "short-first", "rejected-kept"}
    assert {k: set(places) for k, places in found.items()} == {"4": rules, "7": rules}
    assert {stream for by_rule in found.values() for places in by_rule.values() for stream in places} == {"hit-1"}


def test_a_share_of_the_history_that_is_not_reached_is_refused_with_each_faults_own(teacher: Teacher, small: Fixture) -> None:
    with pytest.raises(FabricationError, match=r"drop \d\.\d{3}, double"):
        certify_sight(Sight(history=1.0), teacher, small.streams, {})
