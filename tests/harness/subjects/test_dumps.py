"""Files of logits as they are read: strictly, and never from another place."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from harness.subjects.dumps import MAX_BYTES, DumpError, read_dump

ROWS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
NAME = "{id}.npy"


def written(folder: Path, rows: np.ndarray, name: str = "cmpl-7.npy") -> bytes:
    stream = io.BytesIO()
    np.save(stream, rows, allow_pickle=rows.dtype == object)
    (folder / name).write_bytes(stream.getvalue())
    return stream.getvalue()


def test_a_file_is_read_with_its_type_shape_values_and_digest(tmp_path: Path) -> None:
    content = written(tmp_path, ROWS)
    dump = read_dump(tmp_path, NAME, "cmpl-7")
    assert dump is not None
    assert (dump.dtype, dump.shape, dump.content) == ("<f4", (2, 3), ROWS.tobytes())
    assert dump.sha256 == hashlib.sha256(content).hexdigest()


def test_values_come_row_by_row_whatever_their_order_in_the_file(tmp_path: Path) -> None:
    written(tmp_path, np.asfortranarray(ROWS))
    dump = read_dump(tmp_path, NAME, "cmpl-7")
    assert dump is not None
    assert dump.content == ROWS.tobytes()


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_dump(tmp_path, NAME, "cmpl-7") is None


@pytest.mark.parametrize("response_id", ["../cmpl-7", "a/b", "", "a b", "cmpl-7\n", ".."])
def test_an_id_that_could_name_another_place_is_refused(tmp_path: Path, response_id: str) -> None:
    with pytest.raises(DumpError, match="is no part of a file name"):
        read_dump(tmp_path, NAME, response_id)


@pytest.mark.parametrize("size", [0, 5, 60, 140])
def test_a_file_that_is_cut_is_refused(tmp_path: Path, size: int) -> None:
    content = written(tmp_path, ROWS)
    (tmp_path / "cmpl-7.npy").write_bytes(content[:size])
    with pytest.raises(DumpError, match=r"dump: cmpl-7\.npy is no array"):
        read_dump(tmp_path, NAME, "cmpl-7")


def test_a_file_that_goes_on_behind_its_array_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cmpl-7.npy").write_bytes(written(tmp_path, ROWS) + b"x")
    with pytest.raises(DumpError, match="goes on behind its array"):
        read_dump(tmp_path, NAME, "cmpl-7")


def test_a_file_of_pickled_objects_is_refused_unread(tmp_path: Path) -> None:
    written(tmp_path, np.array([{"a": 1}], object))
    with pytest.raises(DumpError, match="is no array"):
        read_dump(tmp_path, NAME, "cmpl-7")


def test_a_file_that_claims_more_values_than_it_has_is_refused(tmp_path: Path) -> None:
    content = written(tmp_path, ROWS).replace(b"(2, 3)", b"(2, 9)")
    (tmp_path / "cmpl-7.npy").write_bytes(content)
    with pytest.raises(DumpError, match="is no array"):
        read_dump(tmp_path, NAME, "cmpl-7")


def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "cmpl-7.npy").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(DumpError, match="is over 64 MiB"):
        read_dump(tmp_path, NAME, "cmpl-7")


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cmpl-7.npy").mkdir()
    with pytest.raises(DumpError, match="cannot be read"):
        read_dump(tmp_path, NAME, "cmpl-7")
