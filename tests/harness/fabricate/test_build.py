"""A part that misses a bound is drawn again by itself: the rest of a fabrication keeps its bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.fabricate import build as module
from harness.fabricate.build import build
from harness.fabricate.certificate import Certificate
from harness.fabricate.errors import BoundError, UnshownError
from harness.fabricate.recipe import Recipe, read_recipe
from harness.fabricate.streams import Kind, StreamRecipe
from harness.records.files import read_json
from harness.records.fixture import Fixture


@pytest.fixture(scope="module")
def recipe(small_path: Path) -> Recipe:
    return read_recipe(small_path)


def failing(monkeypatch: pytest.MonkeyPatch, name: str, error: BoundError, times: int = 1) -> None:
    """Let the first calls of a function of the module end, and then raise."""
    real: Callable[..., Any] = getattr(module, name)
    calls: list[int] = []

    def once(*arguments: Any) -> Any:
        result = real(*arguments)
        calls.append(1)
        if len(calls) <= times:
            raise error
        return result

    monkeypatch.setattr(module, name, once)


def files(directory: Path) -> dict[str, bytes]:
    """The bytes of all that is written but certificates, by path."""
    found = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    return {
        name: content for name, content in found.items() if name.startswith(("model/", "packs/")) and "certificate" not in name
    }


def missed(directory: Path) -> dict[str, list[str]]:
    return read_json(directory / "model" / "certificate.json", Certificate).missed


def test_a_fabrication_whose_bounds_hold_draws_nothing_again(small: Fixture) -> None:
    assert missed(Path(small.model).parent) == {}


def test_a_pack_that_misses_a_bound_is_drawn_again_with_its_identity_and_the_container_stays(
    monkeypatch: pytest.MonkeyPatch, recipe: Recipe, small: Fixture, tmp_path: Path
) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    for directory in (first, again):
        with monkeypatch.context() as patch:
            failing(patch, "make_pack", BoundError("pack mixed: too narrow"))
            build(recipe, directory)
        assert missed(directory) == {"pack mixed": ["pack mixed: too narrow"]}
    old, new = files(Path(small.model).parent), files(first)
    changed = {name for name in old if old[name] != new[name]}
    assert old.keys() == new.keys()
    assert changed == {"packs/mixed/model.safetensors", "packs/mixed2/model.safetensors"}
    assert new == files(again)


def test_a_container_whose_history_shows_too_little_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch, recipe: Recipe, small: Fixture, tmp_path: Path
) -> None:
    failing(monkeypatch, "history_of", BoundError("container: too blind"))
    streams = build(recipe, tmp_path)
    assert streams == small.streams
    assert missed(tmp_path) == {"container": ["container: too blind"]}
    old, new = files(Path(small.model).parent), files(tmp_path)
    assert old["model/model.q4nx"] != new["model/model.q4nx"]


def test_a_container_over_which_a_pack_always_misses_is_drawn_again_and_the_packs_from_their_first_draw(
    monkeypatch: pytest.MonkeyPatch, recipe: Recipe, small: Fixture, tmp_path: Path
) -> None:
    failing(monkeypatch, "make_pack", BoundError("pack mixed: too narrow"), times=7)
    build(recipe, tmp_path)
    found = missed(tmp_path)
    assert found.keys() == {"container", "pack mixed"}
    assert found["pack mixed"] == ["pack mixed: too narrow"]
    (told,) = found["container"]
    assert told.startswith("pack mixed: drawn 6 times, and each draw missed a bound:\n  pack mixed: too narrow\n")
    old, new = files(Path(small.model).parent), files(tmp_path)
    assert old["model/model.q4nx"] != new["model/model.q4nx"]


def test_a_pack_is_drawn_again_where_a_fault_of_its_reader_shows_nowhere(
    monkeypatch: pytest.MonkeyPatch, recipe: Recipe, small: Fixture, tmp_path: Path
) -> None:
    failing(monkeypatch, "require_shown", UnshownError("no pack shows cap-dropped", "mixed"))
    build(recipe, tmp_path)
    assert missed(tmp_path) == {"pack mixed": ["no pack shows cap-dropped"]}
    old, new = files(Path(small.model).parent), files(tmp_path)
    assert old["packs/mixed/model.safetensors"] != new["packs/mixed/model.safetensors"]


def test_streams_that_lookup_hits_are_drawn_again_where_a_wrong_rule_shows_in_none_and_others_stay(
    monkeypatch: pytest.MonkeyPatch, recipe: Recipe, tmp_path: Path
) -> None:
    asked = (StreamRecipe(Kind.MAIN, 1), StreamRecipe(Kind.HIT, 6))
    recipe = msgspec.structs.replace(recipe, streams=asked, packs=(), identities=())
    main, hit = build(recipe, tmp_path / "first")
    failing(monkeypatch, "lookup_of", BoundError("no stream shows earliest"))
    other_main, other_hit = build(recipe, tmp_path / "again")
    assert missed(tmp_path / "again") == {"streams": ["no stream shows earliest"]}
    assert main == other_main
    assert hit.prompt_ids != other_hit.prompt_ids
