"""The container's bytes against golden files that other writers made."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.fabricate.errors import FabricationError
from harness.fabricate.numerics import to_bf16
from harness.fabricate.q4nx import (
    Q41,
    encode_container,
    pack_tiles,
    quantise,
    read_container,
    unpack_tiles,
    write_container,
)
from harness.fabricate.shape import LM_HEAD, ModelShape

GOLDEN = Path(__file__).parents[2] / "golden" / "q4nx"
FACTS: dict[str, Any] = json.loads((GOLDEN / "golden.json").read_bytes())
GOLDEN_SHAPE = ModelShape(hidden=256, intermediate=256, layers=2, heads=2, kv_heads=1, head_dim=128, vocab=256, padded_vocab=256)


def indices(rows: int, columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    row, column = np.indices((rows, columns))
    return row, column


def decoded_sha256(matrix: Q41) -> str:
    return hashlib.sha256(matrix.decode().astype("<f4").tobytes()).hexdigest()


def formula_tile() -> Q41:
    row, column = indices(32, 256)
    codes = (7 * row + 3 * column + 5 * (column // 32)) % 16
    row, group = indices(32, 8)
    scales = 2.0**-7 * (1 + ((3 * row + 5 * group) % 16) / 16)
    mins = -(2.0**-4) * (1 + ((5 * row + 3 * group) % 32) / 32)
    return Q41(codes.astype(np.uint8), scales, mins)


def golden_matrix(number: int, rows: int, columns: int) -> Q41:
    row, column = indices(rows, columns)
    codes = (7 * row + 3 * column + 5 * (column // 32) + 11 * number) % 16
    row, group = indices(rows, columns // 32)
    scales = 2.0**-8 * (1 + ((3 * row + 5 * group + number) % 16) / 16)
    return Q41(codes.astype(np.uint8), scales, to_bf16(-7.5 * scales))


def golden_container() -> dict[str, Q41 | NDArray[np.float64]]:
    """The tensors of tiny-qwen3 from the formulas in the golden README."""
    parts = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    norms = ["input_layernorm", "post_attention_layernorm", "q_norm", "k_norm"]
    tensors: dict[str, Q41 | NDArray[np.float64]] = {}
    for name, shape in GOLDEN_SHAPE.matrices().items():
        part = name.split(".")[-2]
        number = 0 if name == LM_HEAD else 1 + 7 * int(name.split(".")[2]) + parts.index(part)
        tensors[name] = golden_matrix(number, *shape)
    for name, shape in GOLDEN_SHAPE.vectors().items():
        part = name.split(".")[-2]
        if part == "embed_tokens":
            row, column = indices(*shape)
            tensors[name] = (((13 * row + 29 * column) % 33) - 16) / 256
        else:
            number = 0 if part == "norm" else 4 * int(name.split(".")[2]) + 1 + norms.index(part)
            tensors[name] = 1 + (((5 * np.arange(shape[0]) + number) % 16) - 8) / 64
    return tensors


def test_the_formula_tile_is_the_golden_tile() -> None:
    matrix = formula_tile()
    got = pack_tiles(matrix).tobytes()
    assert got == (GOLDEN / "tile_q4_1.bin").read_bytes()
    assert hashlib.sha256(got).hexdigest() == FACTS["tile_q4_1.bin"]["sha256"]
    assert decoded_sha256(matrix) == FACTS["tile_q4_1.bin"]["dequant_f32le_sha256"]


@pytest.mark.parametrize("name", ["random_q4_1_64x512", "random_q4_1_32x288"])
def test_codes_of_another_quantiser_pack_to_the_stock_converters_bytes(name: str) -> None:
    with np.load(GOLDEN / f"{name}.npz") as source:
        planes = (to_bf16(source[key].astype(np.float64)) for key in ("scale_f16", "min_f16"))
        matrix = Q41(source["codes"], *planes)
    assert pack_tiles(matrix).tobytes() == (GOLDEN / f"{name}.bin").read_bytes()
    assert decoded_sha256(matrix) == FACTS[f"{name}.bin"]["dequant_f32le_sha256"]


def test_the_whole_golden_container_is_reproduced_byte_for_byte() -> None:
    got = encode_container(golden_container())
    assert hashlib.sha256(got).hexdigest() == FACTS["tiny-qwen3/model.q4nx"]["sha256"]
    assert got == gzip.decompress((GOLDEN / "tiny-qwen3" / "model.q4nx.gz").read_bytes())


def test_a_written_container_reads_back_as_it_was(tmp_path: Path) -> None:
    tensors = golden_container()
    write_container(tmp_path, tensors)
    got = read_container(tmp_path, GOLDEN_SHAPE.vectors() | GOLDEN_SHAPE.matrices())
    assert got.keys() == tensors.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(got[name], tensor.decode() if isinstance(tensor, Q41) else tensor)


def test_a_container_with_a_tensor_too_few_is_refused_by_name(tmp_path: Path) -> None:
    tensors = golden_container()
    del tensors["model.norm.weight"]
    write_container(tmp_path, tensors)
    with pytest.raises(FabricationError, match=r"model\.q4nx: tensors \['model\.norm\.weight'\]"):
        read_container(tmp_path, GOLDEN_SHAPE.vectors() | GOLDEN_SHAPE.matrices())


def test_rows_that_fill_no_tile_are_refused() -> None:
    with pytest.raises(FabricationError, match="33 rows; a tile has 32 rows"):
        pack_tiles(Q41(np.zeros((33, 32), np.uint8), np.zeros((33, 1)), np.zeros((33, 1))))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 18), st.integers(0, 2**32 - 1))
def test_unpacking_undoes_packing_at_any_padding(tile_rows: int, groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = 32 * tile_rows, 32 * groups
    planes = (to_bf16(rng.standard_normal((rows, groups))) for _ in range(2))
    matrix = Q41(rng.integers(0, 16, (rows, columns), np.uint8), *planes)
    tiles = pack_tiles(matrix)
    assert tiles.shape == (tile_rows * -(-groups // 8), 5120)
    got = unpack_tiles(tiles.tobytes(), rows, columns)
    np.testing.assert_array_equal(got.codes, matrix.codes)
    np.testing.assert_array_equal(got.scales, matrix.scales)
    np.testing.assert_array_equal(got.mins, matrix.mins)


def test_plain_rounding_is_off_by_half_a_step_at_most() -> None:
    weights = np.random.default_rng(3).standard_normal((32, 64))
    matrix = quantise(weights)
    steps = np.repeat(matrix.scales, 32, axis=1)
    # half a step for the code, and a bf16 rounding of scale and min on top
    assert np.all(np.abs(matrix.decode() - weights) <= 0.5 * steps + 15 * steps * 2**-8 + np.abs(weights).max() * 2**-8)


def test_a_constant_group_is_its_min() -> None:
    matrix = quantise(np.full((32, 32), -0.75))
    assert set(matrix.codes.ravel().tolist()) == {0}
    np.testing.assert_array_equal(matrix.decode(), np.full((32, 32), -0.75))


def test_a_power_of_two_over_a_matrix_is_exact() -> None:
    matrix = formula_tile()
    np.testing.assert_array_equal(matrix.times(8.0).decode(), matrix.decode() * 8)
