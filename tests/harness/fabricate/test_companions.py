"""Companion recipes: fabricated with the main one, each under its own hash, and found by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import FileFormatError, UsageError
from harness.fabricate import build as building
from harness.fabricate import store
from harness.fabricate.located import Located
from harness.fabricate.pack_twins import pack_twin
from harness.fabricate.recipe import Recipe
from harness.fabricate.store import fabricate
from harness.fabricate.twins import twin
from harness.records.fixture import Fixture, Stream
from tests.harness.fabricate.conftest import SMALL_RECIPE

BARE = SMALL_RECIPE[: SMALL_RECIPE.index("[[packs]]")]


def write(directory: Path, name: str, content: str = SMALL_RECIPE, companions: tuple[str, ...] = ()) -> Path:
    listed = ", ".join(f'"{one}.toml"' for one in companions)
    path = directory / f"{name}.toml"
    path.write_text(content.replace('name = "small"', f'name = "{name}"\ncompanions = [{listed}]', 1))
    return path


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("companions")


@pytest.fixture(scope="module")
def main(directory: Path) -> Fixture:
    write(directory, "deep")
    write(directory, "plain", BARE)
    return fabricate(write(directory, "main", BARE, ("deep", "plain")), directory / "cache")


def test_each_recipe_has_an_entry_of_its_own_and_the_fixture_holds_them_in_order(main: Fixture) -> None:
    assert [main.name, *(one.name for one in main.companions)] == ["main", "deep", "plain"]
    assert len({one.recipe.partition("@")[2] for one in (main, *main.companions)}) == 3
    assert Path(main.companion("deep").model).is_dir()
    assert main.companion("deep").packs.keys() == {"mixed"}
    assert main.packs == {}
    with pytest.raises(KeyError, match="deeper"):
        main.companion("deeper")


def test_a_companion_is_the_fixture_that_its_own_recipe_gives(main: Fixture, directory: Path) -> None:
    assert fabricate(directory / "deep.toml", directory / "cache") == main.companion("deep")


def test_names_resolve_across_companions(main: Fixture) -> None:
    located = Located(main)
    deep = main.companion("deep")
    assert located.model("main") == Path(main.model)
    assert located.model("deep") == Path(deep.model)
    assert located.pack("deep:mixed") == Path(deep.packs["mixed"])
    assert located.model("deep+context=40") == twin(deep, "deep+context=40")
    assert located.pack("deep:mixed+tap=9") == pack_twin(deep, "mixed+tap=9")
    assert located.model("deep+context=40").is_relative_to(Path(deep.model).parent)
    assert located.pack("deep-draft") == located.model("deep-draft") == twin(deep, "deep-draft")


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("model", "deeper", "'deeper' was not fabricated; use main or deep or plain"),
        ("pack", "deeper:mixed", "'deeper' is no companion of main; use deep or plain"),
        ("pack", "deep:never", "'never' was not fabricated; use mixed"),
        ("pack", "mixed", "'mixed' was not fabricated; main has no packs"),
        ("pack", "plain:mixed", "'mixed' was not fabricated; plain has no packs"),
    ],
)
def test_a_name_that_no_recipe_holds_is_one_clear_error(main: Fixture, kind: str, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        getattr(Located(main), kind)(name)


def test_a_changed_companion_is_made_anew_and_the_main_one_is_kept(
    main: Fixture, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []

    def build(recipe: Recipe, path: Path) -> tuple[Stream, ...]:
        built.append(recipe.name)
        return building.build(recipe, path)

    monkeypatch.setattr(store, "build", build)
    plain = directory / "plain.toml"
    plain.write_text(plain.read_text() + "\n")
    again = fabricate(directory / "main.toml", directory / "cache")
    assert built == ["plain"]
    assert again.recipe == main.recipe
    assert again.companion("plain").recipe != main.companion("plain").recipe


def test_companions_of_companions_equal_names_and_missing_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "plain", BARE)
    write(tmp_path, "nested", BARE, ("plain",))
    with pytest.raises(FileFormatError, match=r"nested\.toml: companions=\['plain\.toml'\]: a companion has none"):
        fabricate(write(tmp_path, "main", BARE, ("nested",)), tmp_path / "cache")
    with pytest.raises(FileFormatError, match=r"main\.toml: companions: 2 recipes are named 'plain'; names differ"):
        fabricate(write(tmp_path, "main", BARE, ("plain", "plain")), tmp_path / "cache")
    with pytest.raises(FileFormatError, match=r"none\.toml: cannot be read"):
        fabricate(write(tmp_path, "main", BARE, ("none",)), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
