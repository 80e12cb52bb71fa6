"""Tiles decode to the recorded floats, or are refused by tensor, tile, row, group, value and rule."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from forward_serve.container import open_container
from forward_serve.q4_1 import decode_q4_1
from tests.forward_serve.containers import GOLDEN, LM_HEAD, QUERY, Header, assert_refused, bf16, overwrite, rewrite

RECORDED = json.loads((GOLDEN / "golden.json").read_text())


@pytest.mark.parametrize(
    ("name", "num_rows", "num_columns"),
    [("tile_q4_1.bin", 32, 256), ("random_q4_1_64x512.bin", 64, 512), ("random_q4_1_32x288.bin", 32, 288)],
)
def test_golden_tiles_decode_to_the_recorded_sha256(name: str, num_rows: int, num_columns: int) -> None:
    tiles = np.fromfile(GOLDEN / name, np.uint8).reshape(-1, 5120)
    got = decode_q4_1(tiles, num_rows, num_columns, name)
    assert got.shape == (num_rows, num_columns)
    assert hashlib.sha256(got.astype("<f4").tobytes()).hexdigest() == RECORDED[name]["dequant_f32le_sha256"]


@pytest.mark.parametrize(
    ("name", "chunk", "words"),
    [
        ("tile_q8_layoutA_k32r.bin", 8704, "Q8"),
        ("tile_q8_layoutB_16lane.bin", 8704, "Q8"),
        ("tile_q4k.bin", 4736, "Q4_K"),
        ("tile_q4_0_signed.bin", 5120, "tile 0 is a signed q4_0 tile"),
    ],
)
def test_golden_chunks_of_other_kinds_are_refused_by_name(tiny: Path, name: str, chunk: int, words: str) -> None:
    tail = (GOLDEN / name).read_bytes() * 8

    def put_behind(header: Header) -> None:
        header["the former lm_head"] = header.pop(LM_HEAD)
        header[LM_HEAD] = {"dtype": "I8", "shape": [8, chunk], "data_offsets": [667136, 667136 + len(tail)]}

    rewrite(tiny, put_behind, lambda data: data + tail)
    assert_refused(tiny, "model.q4nx", LM_HEAD, words)


TENSOR_FAULTS: dict[str, tuple[str, int, bytes, list[str]]] = {
    "a NaN scale": (LM_HEAD, 3 * 5120 + 2 * (2 * 32 + 5), bf16(float("nan")), ["tile 3, row 5, group 2", "scale=nan", "finite"]),
    "an infinite scale": (LM_HEAD, 0, bf16(float("inf")), ["tile 0, row 0, group 0", "scale=inf"]),
    "a scale above 100": (QUERY, 5120, bf16(100.5), ["tile 1, row 0", "scale=100.5", "100 at most"]),
    "a scale below -100": (QUERY, 5120, bf16(-101.0), ["tile 1, row 0", "scale=-101.0", "100 at most"]),
    "an infinite min": (QUERY, 512, bf16(float("-inf")), ["tile 0, row 0", "min=-inf", "finite"]),
    "a signed q4_0 tile": (QUERY, 2 * 5120, bf16(-0.5) + bytes(1022), ["tile 2 is a signed q4_0 tile"]),
}


@pytest.mark.parametrize("fault", TENSOR_FAULTS)
def test_a_tensor_is_refused_that_holds(tiny: Path, fault: str) -> None:
    name, offset_bytes, replacement, words = TENSOR_FAULTS[fault]
    overwrite(tiny, name, offset_bytes, replacement)
    assert_refused(tiny, "model.q4nx", name, *words)


@pytest.mark.parametrize("scale", [100.0, -100.0])
def test_a_scale_of_100_and_a_negative_one_beside_mins_are_served(tiny: Path, scale: float) -> None:
    overwrite(tiny, QUERY, 0, bf16(scale))
    overwrite(tiny, QUERY, 1024, b"\x01")
    overwrite(tiny, QUERY, 512, bf16(0.5))
    assert open_container(tiny).weights.layers[1].qkv[0, 0] == scale + 0.5
