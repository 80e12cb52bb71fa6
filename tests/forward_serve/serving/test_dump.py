"""Dumps of logits: whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forward_serve.errors import Refusal
from forward_serve.serving.dump import LogitDump, prepare_directory

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


@pytest.mark.parametrize("num_rows", [0, 1, 3])
def test_a_dump_has_its_first_rows_and_no_other_file_stands_beside_it(tmp_path: Path, num_rows: int) -> None:
    with LogitDump(tmp_path, "cmpl-1") as dump:
        for row in ROWS:
            dump.add(row)
        dump.keep(num_rows)
    got = np.load(tmp_path / "cmpl-1.npy")
    assert (got.dtype, got.shape, got.tolist()) == (np.float32, (num_rows, 4), ROWS[:num_rows].tolist())
    assert [path.name for path in tmp_path.iterdir()] == ["cmpl-1.npy"]


def test_a_long_dump_has_as_many_rows_as_it_says(tmp_path: Path) -> None:
    with LogitDump(tmp_path, "cmpl-1") as dump:
        for number in range(1200):
            dump.add(np.full(7, number, np.float32))
        dump.keep(1200)
    assert np.load(tmp_path / "cmpl-1.npy")[:, 6].tolist() == list(range(1200))


def test_until_it_is_kept_there_is_no_dump(tmp_path: Path) -> None:
    with LogitDump(tmp_path, "cmpl-1") as dump:
        dump.add(ROWS[0])
        assert list(tmp_path.glob("*.npy")) == []


def test_a_reply_that_breaks_off_leaves_nothing_not_even_what_an_earlier_server_left(tmp_path: Path) -> None:
    (tmp_path / "cmpl-1.npy").write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), LogitDump(tmp_path, "cmpl-1") as dump:
        dump.add(ROWS[0])
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_rows_are_taken_as_they_are_now_and_not_as_a_later_pass_leaves_them(tmp_path: Path) -> None:
    row = ROWS[0].copy()
    with LogitDump(tmp_path, "cmpl-1") as dump:
        dump.add(row)
        row[:] = 0
        dump.keep(1)
    assert np.load(tmp_path / "cmpl-1.npy").tolist() == ROWS[:1].tolist()


def test_a_directory_is_made_and_tried(tmp_path: Path) -> None:
    assert prepare_directory(tmp_path / "new") == tmp_path / "new"
    assert prepare_directory(tmp_path / "new") == tmp_path / "new"
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("name", ["file", "file/below", "no/parent", "/proc"])
def test_a_directory_that_cannot_be_written_is_refused_by_its_flag(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match=r"--dump-logits=.*; give a directory that can be written"):
        prepare_directory(tmp_path / name)
