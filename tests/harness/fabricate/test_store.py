"""The cache: the same recipe gives the same bytes, entries are whole or absent, and the cache can be emptied."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from harness.errors import FileFormatError, UsageError
from harness.fabricate import store
from harness.fabricate.store import clean, content_digest, default_cache, fabricate, make_once
from harness.records.fixture import Fixture


def contents(directory: str) -> dict[str, bytes]:
    paths = (path for path in Path(directory).rglob("*") if path.is_file() and path.name != "certificate.json")
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def test_the_same_recipe_gives_the_same_bytes_in_another_cache(small: Fixture, small_path: Path, tmp_path: Path) -> None:
    again = fabricate(small_path, tmp_path)
    assert again.streams == small.streams
    assert contents(again.model) == contents(small.model)
    assert contents(again.packs["mixed"]) == contents(small.packs["mixed"])
    assert sorted(contents(again.model)) == ["config.json", "model.q4nx", "tokenizer.json", "tokenizer_config.json"]


def test_another_seed_gives_other_bytes_under_another_name(small: Fixture, small_path: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "other.toml"
    recipe.write_text(small_path.read_text().replace("seed = 5", "seed = 6"))
    other = fabricate(recipe, tmp_path / "cache")
    assert other.recipe != small.recipe
    assert contents(other.model)["model.q4nx"] != contents(small.model)["model.q4nx"]


def test_a_held_entry_is_not_built_again(small: Fixture, small_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "build", None)  # calling it would fail
    assert fabricate(small_path, Path(small.model).parents[1]) == small


def test_the_fixture_names_recipe_directories_and_blocks(small: Fixture, small_path: Path) -> None:
    assert small.recipe == f"small@{content_digest(small_path.read_bytes())}"
    assert Path(small.model).is_absolute()
    assert (Path(small.model) / "certificate.json").is_file()
    assert small.block_sizes == {"mixed": 5, "mixed2": 5}
    assert small.vocab_bound == 256


def test_a_moved_cache_still_serves_its_entries(small_path: Path, tmp_path: Path) -> None:
    first = fabricate(small_path, tmp_path / "before")
    (tmp_path / "before").rename(tmp_path / "after")
    moved = fabricate(small_path, tmp_path / "after")
    assert Path(moved.model).is_dir()
    assert moved.model == first.model.replace("before", "after")


def test_a_broken_recipe_leaves_the_cache_alone(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("name = 1")
    with pytest.raises(FileFormatError, match=r"broken\.toml"):
        fabricate(tmp_path / "broken.toml", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half").write_text("written")
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        make_once(tmp_path, tmp_path / "entry", fail)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".building-old").mkdir()
    assert make_once(tmp_path, tmp_path / "entry", lambda directory: (directory / "file").touch())
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "entry"]


def test_two_builders_of_one_entry_build_once(tmp_path: Path) -> None:
    started, release = threading.Event(), threading.Event()
    calls: list[Path] = []

    def build(directory: Path) -> None:
        calls.append(directory)
        started.set()
        assert release.wait(10)

    made: list[bool] = []
    builders = [threading.Thread(target=lambda: made.append(make_once(tmp_path, tmp_path / "entry", build))) for _ in range(2)]
    builders[0].start()
    assert started.wait(10)
    builders[1].start()
    assert not (tmp_path / "entry").exists()  # nobody sees an entry while it is built
    release.set()
    for builder in builders:
        builder.join(10)
    assert (len(calls), sorted(made)) == (1, [False, True])


def entry(cache: Path, name: str, size: int, used_at: int) -> Path:
    path = cache / name
    path.mkdir(parents=True)
    (path / "fixture.json").write_bytes(bytes(size))
    (path / "link").hardlink_to(path / "fixture.json")
    os.utime(path, (used_at, used_at))
    return path


def test_cleaning_removes_what_was_unused_for_longest_and_counts_a_hard_link_once(tmp_path: Path) -> None:
    old, middle, new = (entry(tmp_path, name, 1000, at) for name, at in (("a", 1), ("c", 2), ("b", 3)))
    (tmp_path / "not-ours").mkdir()
    assert clean(tmp_path, keep_bytes=2500) == (old,)
    assert (middle.is_dir(), new.is_dir()) == (True, True)
    assert clean(tmp_path) == (middle, new)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "not-ours"]


@pytest.mark.parametrize(
    ("environment", "want"),
    [
        ({"DRAFTPROOF_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/draftproof")),
        ({"DRAFTPROOF_CACHE": "", "XDG_CACHE_HOME": ""}, Path.home() / ".cache" / "draftproof"),
    ],
)
def test_the_cache_lies_where_the_environment_says(environment: dict[str, str], want: Path) -> None:
    assert default_cache(environment) == want


def test_a_cache_that_cannot_be_written_is_one_clear_error(small_path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"file: cannot be written .* set DRAFTPROOF_CACHE"):
        fabricate(small_path, tmp_path / "file")
