"""The safetensors envelope, against the library."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.fabricate.envelope import Entry, encode, read
from harness.fabricate.errors import FabricationError

NAMES = st.text("abz.0_", min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, st.tuples(st.sampled_from(["BF16", "I8"]), st.integers(1, 5)), min_size=1, max_size=6))
def test_the_file_is_the_one_that_the_library_writes(kinds: dict[str, tuple[str, int]]) -> None:
    dtypes = {"BF16": np.dtype(ml_dtypes.bfloat16), "I8": np.dtype(np.int8)}
    arrays = {name: np.arange(2 * size).reshape(2, size).astype(dtypes[kind]) for name, (kind, size) in kinds.items()}
    entries = {name: Entry(kinds[name][0], array.shape, array.tobytes()) for name, array in arrays.items()}
    assert encode(entries) == safetensors.numpy.save(arrays)
    assert encode(entries, {"format": "pt"}) == safetensors.numpy.save(arrays, {"format": "pt"})


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    entries = {"b": Entry("I8", (2, 3), bytes(range(6))), "a": Entry("BF16", (2,), b"\x80\x3f\x00\x40")}
    (tmp_path / "file").write_bytes(encode(entries))
    assert read(tmp_path / "file") == entries


def test_a_cut_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(encode({"a": Entry("I8", (64,), bytes(64))})[:-1])
    with pytest.raises(FabricationError, match=r"cut: .*fabricate it again"):
        read(tmp_path / "cut")
