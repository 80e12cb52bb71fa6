"""A row's products are the same bits whichever rows share the pass, and right to float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forward_serve.products import HOST_WIDTH, KEY_MULTIPLE, HostProducts, Products, key_spans

Floats = NDArray[np.float32]
NUM_POSITIONS = 3 * KEY_MULTIPLE


def random_rows(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("num_rows", range(1, HOST_WIDTH + 1))
@pytest.mark.parametrize(("num_in", "num_out"), [(256, 512), (256, 288), (512, 256), (1024, 96), (40, 24)])
def test_a_linear_row_alone_has_the_bits_that_it_has_at_each_offset_of_a_pass(num_rows: int, num_in: int, num_out: int) -> None:
    products = HostProducts()
    weight = products.prepare(random_rows(1, num_out, num_in))
    rows = random_rows(2, num_rows, num_in)
    want = np.concatenate([products.linear(rows[offset : offset + 1], weight) for offset in range(num_rows)])
    assert products.linear(rows, weight).tobytes() == want.tobytes()


@settings(max_examples=30, deadline=None)
@given(num_rows=st.integers(1, 20), num_in=st.integers(1, 300), num_out=st.integers(1, 300), seed=st.integers(0, 99))
def test_a_linear_row_of_any_shape_is_independent_and_right(num_rows: int, num_in: int, num_out: int, seed: int) -> None:
    products = HostProducts()
    weight, rows = random_rows(seed, num_out, num_in), random_rows(seed + 1, num_rows, num_in)
    got = products.linear(rows, products.prepare(weight))
    assert got[-1].tobytes() == products.linear(rows[-1:], products.prepare(weight))[0].tobytes()
    np.testing.assert_allclose(got, rows.astype(float) @ weight.T.astype(float), atol=1e-3)


def naive_attention(query: Floats, keys: Floats, values: Floats, position: int) -> NDArray[np.float64]:
    """One row of causal attention, float64, head by head: `query` [NKV, G, D]."""
    mixed = np.empty(query.shape)
    for kv_head, group in np.ndindex(query.shape[:2]):
        scores = keys[kv_head, : position + 1].astype(float) @ query[kv_head, group] / query.shape[-1] ** 0.5
        weights = np.exp(scores - scores.max())
        mixed[kv_head, group] = weights @ values[kv_head, : position + 1] / weights.sum()
    return mixed


@pytest.mark.parametrize(("num_kv_heads", "group"), [(1, 2), (2, 2), (2, 1), (1, 5)])
@pytest.mark.parametrize("start", [0, 1, 55, 63, 64, 120])
def test_attention_equals_a_naive_one_and_rows_do_not_depend_on_each_other(num_kv_heads: int, group: int, start: int) -> None:
    products = HostProducts()
    keys, values = random_rows(3, num_kv_heads, NUM_POSITIONS, 64), random_rows(4, num_kv_heads, NUM_POSITIONS, 64)
    query = random_rows(5, HOST_WIDTH, num_kv_heads, group, 64)
    got = products.attend(query, keys, values, start)
    assert got.shape == query.shape
    for offset in range(HOST_WIDTH):
        alone = products.attend(query[offset : offset + 1], keys, values, start + offset)
        assert got[offset].tobytes() == alone[0].tobytes(), offset
        np.testing.assert_allclose(got[offset], naive_attention(query[offset], keys, values, start + offset), atol=1e-5)


@pytest.mark.parametrize("position", [0, 62, 63, 64, 127])
def test_keys_and_values_behind_a_row_change_no_bit_of_it(position: int) -> None:
    products = HostProducts()
    query, keys, values = random_rows(6, 1, 2, 2, 32), random_rows(7, 2, NUM_POSITIONS, 32), random_rows(8, 2, NUM_POSITIONS, 32)
    want = products.attend(query, keys, values, position).tobytes()
    keys[:, position + 1 :] = 1e30
    values[:, position + 1 :] = -1e30
    assert products.attend(query, keys, values, position).tobytes() == want


def test_scores_of_a_thousand_neither_overflow_nor_warn() -> None:
    keys, values = random_rows(9, 1, NUM_POSITIONS, 32), random_rows(10, 1, NUM_POSITIONS, 32)
    keys[0, 3] = 0
    keys[0, 3, 0] = 1000
    query = np.zeros((1, 1, 1, 32), np.float32)
    query[..., 0] = 1000
    assert HostProducts().attend(query, keys, values, 70)[0, 0, 0].tolist() == values[0, 3].tolist()


@given(start=st.integers(0, 500), num_rows=st.integers(1, 40), key_multiple=st.sampled_from([1, 8, 64]))
def test_spans_cover_the_rows_once_and_each_row_reads_the_fewest_whole_multiples(
    start: int, num_rows: int, key_multiple: int
) -> None:
    got = [(row, num_keys) for rows, num_keys in key_spans(start, num_rows, key_multiple) for row in range(rows.start, rows.stop)]
    want = [(row, -(-(start + row + 1) // key_multiple) * key_multiple) for row in range(num_rows)]
    assert got == want


def test_host_products_state_the_width_of_16_and_a_cache_multiple_above_it() -> None:
    products: Products = HostProducts()
    assert products.width == 16
    assert products.key_multiple >= products.width
