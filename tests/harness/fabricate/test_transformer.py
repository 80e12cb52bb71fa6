"""The forward against the golden figures of an independent reference, and its operations by their laws."""

from __future__ import annotations

import numpy as np

from harness.fabricate.numerics import FLOAT32
from harness.fabricate.q4nx import Q41
from harness.fabricate.shape import LM_HEAD
from harness.fabricate.transformer import forward, heads, linear, merge_heads, rotate
from tests.harness.fabricate.test_q4nx import GOLDEN_SHAPE, golden_container

HELLO = np.array([[39, 68, 75, 75, 78]])


def golden_weights() -> dict[str, np.ndarray]:
    return {name: one.decode() if isinstance(one, Q41) else one for name, one in golden_container().items()}


def test_the_golden_container_says_what_the_reference_says() -> None:
    weights = golden_weights()
    scores = forward(weights, GOLDEN_SHAPE, HELLO).final[0] @ weights[LM_HEAD].T
    assert scores.argmax(axis=1).tolist() == [8, 9, 11, 11, 14]
    assert np.argsort(-scores[-1])[:5].tolist() == [14, 30, 62, 46, 110]
    np.testing.assert_allclose(scores[-1, :4], [-0.090506, 0.512834, 0.009853, -0.506197], atol=5e-7)
    np.testing.assert_allclose(scores[-1].max(), 0.669543, atol=5e-7)


def test_float32_gives_the_same_to_its_own_precision() -> None:
    weights = golden_weights()
    exact, single = (forward(weights, GOLDEN_SHAPE, HELLO, *numerics).final for numerics in ((), (FLOAT32,)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, exact, atol=2e-5)


def test_later_tokens_do_not_change_earlier_states() -> None:
    weights = golden_weights()
    other = HELLO.copy()
    other[0, -1] = 7
    np.testing.assert_array_equal(
        forward(weights, GOLDEN_SHAPE, HELLO).final[:, :-1], forward(weights, GOLDEN_SHAPE, other).final[:, :-1]
    )


def test_rotation_keeps_lengths_and_depends_on_distance_alone() -> None:
    x, y = np.random.default_rng(1).standard_normal((2, 1, 8))
    scores = [float((rotate(x, np.array([at + 3]), 1e4) @ rotate(y, np.array([at]), 1e4).T)[0, 0]) for at in (0, 5, 90)]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(rotate(x, np.array([7]), 1e4)), np.linalg.norm(x))


def test_merging_heads_undoes_splitting_them() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 12))
    assert heads(x, 4).shape == (2, 3, 3, 4)
    np.testing.assert_array_equal(merge_heads(heads(x, 4)), x)


def test_one_product_over_all_rows_is_a_product_per_row() -> None:
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal((2, 3, 5)), rng.standard_normal((4, 5))
    np.testing.assert_allclose(linear(x, weight), np.einsum("abi,oi->abo", x, weight))
