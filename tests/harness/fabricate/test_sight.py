"""What a recipe asks to be seen: refused where it is not, and empty where nothing is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.fabricate.certificate import Certificate
from harness.fabricate.errors import BoundError
from harness.fabricate.recipe import Sight, read_recipe
from harness.fabricate.sight import SightCertificate, history_of, lookup_of
from harness.fabricate.streams import Kind, StreamRecipe, make_streams
from harness.fabricate.teacher import Teacher
from harness.records.files import read_json
from harness.records.fixture import Fixture


@pytest.fixture(scope="module")
def teacher(small: Fixture, small_path: Path) -> Teacher:
    return Teacher.read(Path(small.model), read_recipe(small_path).model, small.streams)


def test_a_recipe_that_asks_nothing_has_an_empty_certificate(teacher: Teacher, small: Fixture) -> None:
    assert history_of(Sight(), teacher, small.streams) is None
    assert lookup_of(Sight(), small.streams) == {}
    assert read_json(Path(small.model) / "certificate.json", Certificate).sight == SightCertificate()


@pytest.mark.parametrize("k", [4, 7])
def test_a_wrong_rule_of_lookup_that_no_stream_shows_is_refused(k: int) -> None:
    streams = make_streams([StreamRecipe(Kind.MISS, 1)], 16, 24)
    with pytest.raises(BoundError, match=rf"sight\.lookup={k}: no stream shows earliest; add a stream of kind hit"):
        lookup_of(Sight(lookup=(k,)), streams)


def test_where_wrong_rules_of_lookup_show_is_listed_by_width_rule_and_stream() -> None:
    streams = make_streams([StreamRecipe(Kind.HIT, 6), StreamRecipe(Kind.MISS, 1)], 16, 24)
    found = lookup_of(Sight(lookup=(4, 7)), streams)
    rules = {"earliest", "short-first", "rejected-kept"}
    assert {k: set(places) for k, places in found.items()} == {"4": rules, "7": rules}
    assert {stream for by_rule in found.values() for places in by_rule.values() for stream in places} == {"hit-1"}


def test_a_share_of_the_history_that_is_not_reached_is_refused_with_each_faults_own(teacher: Teacher, small: Fixture) -> None:
    with pytest.raises(BoundError, match=r"drop \d\.\d{3}, double"):
        history_of(Sight(history=1.0), teacher, small.streams)
