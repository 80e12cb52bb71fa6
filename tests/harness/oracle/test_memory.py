"""What one run computed is known to the next one, as long as nothing changed that it follows from."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.oracle import memory
from harness.oracle.memory import Memory, digest_of
from harness.records.expectation import Choice, Expectations, ModelFacts, Saying
from harness.records.fixture import Fixture

EXPECTED = Expectations(
    "tiny@1", {"tiny": ModelFacts("w", (185,), 64)}, {}, (Saying("w", (1, 2), (Choice(7, 0.5, False, False),)),), ()
)


@pytest.fixture
def fixture(tmp_path: Path) -> Fixture:
    return Fixture("tiny@1", str(tmp_path / "entry" / "model"), {}, (), 256, {}, (Fixture("text@1", "/t", {}, (), 256, {}),))


def test_what_was_written_is_read_under_its_own_name(fixture: Fixture) -> None:
    assert Memory(fixture, "a").read() is None
    Memory(fixture, "a").write(EXPECTED)
    assert Memory(fixture, "a").read() == EXPECTED
    assert Memory(fixture, "b").read() is None


@pytest.mark.parametrize(
    "change",
    [
        lambda fixture: msgspec.structs.replace(fixture, recipe="tiny@2"),
        lambda fixture: msgspec.structs.replace(fixture, companions=(Fixture("text@2", "/t", {}, (), 256, {}),)),
        lambda fixture: msgspec.structs.replace(fixture, companions=()),
    ],
    ids=["recipe", "companion", "no-companion"],
)
def test_files_that_came_about_otherwise_have_a_memory_of_their_own(fixture: Fixture, change: Any) -> None:
    Memory(fixture, "a").write(EXPECTED)
    assert digest_of(change(fixture)) != digest_of(fixture)
    assert Memory(change(fixture), "a").read() is None


def test_an_oracle_of_other_sources_knows_nothing_of_it(
    fixture: Fixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digest_of(fixture)
    room = shutil.copytree(Path(memory.__file__).parent, tmp_path / "oracle")
    monkeypatch.setattr(memory, "__file__", str(room / "memory.py"))
    assert digest_of(fixture) == before  # a digest of what they say, not of where they lie
    source = room / "qwen3_64.py"
    source.write_text(source.read_text() + "\n")
    assert digest_of(fixture) != before


def test_another_numpy_knows_nothing_of_it(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_of(fixture)
    monkeypatch.setattr(np, "__version__", "0.0")
    assert digest_of(fixture) != before


def test_only_the_last_sources_are_remembered(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = Memory(fixture, "a"), Memory(fixture, "ab")
    first.write(EXPECTED)
    other.write(EXPECTED)
    monkeypatch.setattr(np, "__version__", "0.0")
    Memory(fixture, "a").write(EXPECTED)
    assert first.read() is None
    assert other.read() == EXPECTED


def test_a_file_that_cannot_be_read_is_nothing_that_is_known(fixture: Fixture) -> None:
    one = Memory(fixture, "a")
    one.write(EXPECTED)
    (file,) = (Path(fixture.model).parent / memory.FOLDER).iterdir()
    file.write_bytes(file.read_bytes()[:40])
    assert one.read() is None


def test_a_cache_that_cannot_be_written_is_left_as_it_is(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(memory, "write_json", refuse)
    Memory(fixture, "a").write(EXPECTED)
    assert Memory(fixture, "a").read() is None
