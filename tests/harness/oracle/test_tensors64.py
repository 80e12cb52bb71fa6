from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import FileFormatError
from harness.oracle.tensors64 import read_tensor_file, untiled, widened
from tests.harness.oracle.golden import Q4NX, safetensors

RECORDED: dict[str, Any] = json.loads((Q4NX / "golden.json").read_bytes())


def digest(matrix: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(matrix, "<f4").tobytes()).hexdigest()


@pytest.mark.parametrize(
    ("name", "grid", "columns"),
    [("tile_q4_1.bin", (1, 1), 256), ("random_q4_1_64x512.bin", (2, 2), 512), ("random_q4_1_32x288.bin", (1, 2), 288)],
)
def test_golden_tiles_decode_to_the_recorded_float32_values(name: str, grid: tuple[int, int], columns: int) -> None:
    got = untiled((Q4NX / name).read_bytes(), *grid)
    assert digest(got[:, :columns]) == RECORDED[name]["dequant_f32le_sha256"]


def test_columns_that_pad_a_tile_decode_to_zero() -> None:
    assert not untiled((Q4NX / "random_q4_1_32x288.bin").read_bytes(), 1, 2)[:, 288:].any()


def test_bf16_is_the_upper_half_of_float32() -> None:
    assert widened(bytes([0x80, 0x3F, 0x49, 0xC0])).tolist() == [1.0, -3.140625]


def file_of(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_bf16_tensor_is_read_by_name_and_shape(tmp_path: Path) -> None:
    values = np.array([[1.0, -2.0], [0.5, 4.0]])
    file = read_tensor_file(file_of(tmp_path / "f", safetensors({"a": np.zeros(3), "b": values})))
    assert np.array_equal(file.bf16("b", 2, 2), values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x01", "1 bytes, the header needs 9"),
        ((99).to_bytes(8, "little") + b"{}", "10 bytes, the header needs 107"),
        (safetensors({"a": np.zeros(4)})[:-1], r"a \[4\] lies at 0 .. 8 of 7 bytes; they do not fit"),
        (safetensors({"a": np.zeros(4)}).replace(b"BF16", b"F32 "), "a has dtype F32 ; the oracle reads BF16 and I8"),
    ],
    ids=["no-header", "header-longer-than-the-file", "data-cut", "dtype"],
)
def test_a_file_that_breaks_the_envelope_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = file_of(tmp_path / "f", content)
    with pytest.raises(FileFormatError, match=message):
        read_tensor_file(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_tensor_file(tmp_path / "none")


def test_a_missing_tensor_another_shape_and_another_chunk_are_refused(tmp_path: Path) -> None:
    file = read_tensor_file(file_of(tmp_path / "f", safetensors({"a": np.zeros((2, 3))})))
    with pytest.raises(FileFormatError, match="tensor b is missing"):
        file.bf16("b", 2)
    with pytest.raises(FileFormatError, match=r"a is BF16 \[2, 3\], the config asks for BF16 \[3, 2\]"):
        file.bf16("a", 3, 2)
    with pytest.raises(FileFormatError, match=r"a q4_1 matrix of 64 x 300 is I8 \[4, 5120\]"):
        file.q4_1("a", 64, 300)
