"""The float64 forward: golden logits, and cases small enough to be worked out by hand, as the golden container cannot see all."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.oracle.arithmetic64 import Readout, best, grouped, margins, rms, rotated, silu, softmax
from harness.oracle.container64 import Container64, Layer64, read_container
from harness.oracle.qwen3_64 import Qwen3
from harness.oracle.tensors64 import Array
from tests.harness.oracle.golden import HELLO, unpacked

RNG = np.random.default_rng


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Qwen3:
    return Qwen3(read_container(unpacked(tmp_path_factory.mktemp("golden") / "tiny")))


def random_container(seed: int, *, hidden: int = 12, head_dim: int = 4, vocab: int = 20) -> Container64:
    """A model of two layers, four query heads and two kv heads, whose weights are large enough that everything matters."""
    rng = RNG(seed)

    def matrix(rows: int, columns: int) -> Array:
        return rng.normal(0, 1.5 / math.sqrt(columns), (rows, columns))

    def norm(size: int) -> Array:
        return rng.uniform(0.6, 1.4, size)

    layers = tuple(
        Layer64(
            input_norm=norm(hidden),
            q=matrix(4 * head_dim, hidden),
            k=matrix(2 * head_dim, hidden),
            v=matrix(2 * head_dim, hidden),
            q_norm=norm(head_dim) * 2,
            k_norm=norm(head_dim) * 2,
            o=matrix(hidden, 4 * head_dim),
            post_norm=norm(hidden),
            gate=matrix(9, hidden),
            up=matrix(9, hidden),
            down=matrix(hidden, 9),
        )
        for _ in range(2)
    )
    return Container64(
        num_heads=4,
        num_kv_heads=2,
        head_dim=head_dim,
        eps=1e-6,
        theta=100.0,
        bound=vocab - 2,
        embedding=rng.normal(0, 1, (vocab, hidden)),
        layers=layers,
        norm=norm(hidden),
        head=matrix(vocab, hidden),
    )


def test_the_golden_container_gives_the_recorded_logits(golden: Qwen3) -> None:
    (passed,) = golden.forward([HELLO])
    scores = passed.scores
    assert scores.argmax(-1).tolist() == [8, 9, 11, 11, 14]
    assert np.argsort(-scores[-1])[:5].tolist() == [14, 30, 62, 46, 110]
    np.testing.assert_allclose(scores[-1][:4], [-0.090506, 0.512834, 0.009853, -0.506197], atol=1e-6, rtol=0)
    assert scores[-1].max() == pytest.approx(0.669543, abs=1e-6)


def one_head(theta: float = 1.0) -> Container64:
    """A model of one layer, one head of two numbers and no MLP: small enough for a page of sums."""
    eye, one, none = np.eye(2), np.ones(2), np.zeros((2, 2))
    layer = Layer64(one, eye, eye, eye, one, one, eye, one, none, none, none)
    embedding = np.array([[1.0, 0.0], [0.0, 1.0]])
    return Container64(1, 1, 2, 0.0, theta, 2, embedding, (layer,), one, eye)


def test_two_tokens_by_hand_see_the_direction_of_rope() -> None:
    (passed,) = Qwen3(one_head()).forward([(0, 1)])
    # Normed, the rows are (√2, 0) and (0, √2), and so are q, k and v. At position 1 the query (0, √2) is turned by one radian to
    # (-√2 sin 1, √2 cos 1); its score with the key at position 0 is -2 sin 1 / √2, with its own 2 / √2.
    share = math.exp(-math.sqrt(2) * math.sin(1))
    own = math.exp(math.sqrt(2))
    first, second = share / (share + own), own / (share + own)
    stream = (math.sqrt(2) * first, 1 + math.sqrt(2) * second)  # turned the other way, the first share is another
    np.testing.assert_allclose(passed.streams[0, 1], stream, rtol=1e-12)
    norm = math.sqrt((stream[0] ** 2 + stream[1] ** 2) / 2)
    np.testing.assert_allclose(passed.scores[1], [stream[0] / norm, stream[1] / norm], rtol=1e-12)


def test_a_pair_turns_by_its_position_times_its_own_frequency() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 4)  # pairs (1, 3) and (2, 4)
    (((first, second, third, fourth),),) = rotated(x, np.array([3]), theta=100.0)
    assert first == pytest.approx(math.cos(3) - 3 * math.sin(3))
    assert third == pytest.approx(math.sin(3) + 3 * math.cos(3))
    slow = 3 / math.sqrt(100.0)
    assert second == pytest.approx(2 * math.cos(slow) - 4 * math.sin(slow))
    assert fourth == pytest.approx(2 * math.sin(slow) + 4 * math.cos(slow))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 99), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_a_sequence_gives_the_same_whatever_runs_beside_it_and_after_it(seed: int, sizes: list[int]) -> None:
    model = Qwen3(random_container(seed))
    sequences = [tuple(RNG([seed, at]).integers(0, 20, size).tolist()) for at, size in enumerate(sizes)]
    for sequence, together in zip(sequences, model.forward(sequences), strict=True):
        (alone,) = model.forward([sequence])
        (longer,) = model.forward([(*sequence, 3, 4)])
        for other in (alone.scores, longer.scores[: len(sequence)]):
            np.testing.assert_allclose(together.scores, other, atol=1e-12)
        np.testing.assert_allclose(together.streams, longer.streams[:, : len(sequence)], atol=1e-12)


def scalar_forward(model: Container64, ids: tuple[int, ...]) -> list[list[float]]:
    """The same model, one number at a time: a list for each row."""

    def norm(x: list[float], weight: Array) -> list[float]:
        mean = sum(value * value for value in x) / len(x) + model.eps
        return [value / math.sqrt(mean) * float(w) for value, w in zip(x, weight, strict=True)]

    def times(weight: Array, x: list[float]) -> list[float]:
        return [sum(float(w) * value for w, value in zip(row, x, strict=True)) for row in weight]

    def turned(x: list[float], position: int) -> list[float]:
        half, out = len(x) // 2, list(x)
        for j in range(half):
            angle = position * model.theta ** (-2 * j / len(x))
            out[j] = x[j] * math.cos(angle) - x[j + half] * math.sin(angle)
            out[j + half] = x[j + half] * math.cos(angle) + x[j] * math.sin(angle)
        return out

    size = model.head_dim
    rows = [[float(value) for value in model.embedding[token]] for token in ids]
    for layer in model.layers:
        normed = [norm(row, layer.input_norm) for row in rows]
        keys, values = [times(layer.k, y) for y in normed], [times(layer.v, y) for y in normed]
        attended = []
        for at, y in enumerate(normed):
            mixed: list[float] = []
            for head in range(model.num_heads):
                query = turned(norm(times(layer.q, y)[head * size : head * size + size], layer.q_norm), at)
                shared = head // (model.num_heads // model.num_kv_heads)
                part = slice(shared * size, shared * size + size)
                scores = [
                    sum(a * b for a, b in zip(query, turned(norm(keys[j][part], layer.k_norm), j), strict=True)) / math.sqrt(size)
                    for j in range(at + 1)
                ]
                weights = [math.exp(score) for score in scores]
                for place in range(size):
                    mixed.append(sum(w * values[j][part][place] for j, w in enumerate(weights)) / sum(weights))
            attended.append(times(layer.o, mixed))
        rows = [[a + b for a, b in zip(row, more, strict=True)] for row, more in zip(rows, attended, strict=True)]
        for at, row in enumerate(rows):
            y = norm(row, layer.post_norm)
            gate, up = times(layer.gate, y), times(layer.up, y)
            inner = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up, strict=True)]
            rows[at] = [a + b for a, b in zip(row, times(layer.down, inner), strict=True)]
    return [times(model.head, norm(row, model.norm)) for row in rows]


@pytest.mark.parametrize("seed", range(3))
def test_a_random_model_gives_what_one_number_at_a_time_gives(seed: int) -> None:
    container = random_container(seed)
    ids = tuple(RNG(seed).integers(0, 20, 5).tolist())
    (passed,) = Qwen3(container).forward([ids])
    np.testing.assert_allclose(passed.scores, scalar_forward(container, ids), atol=1e-10)


@pytest.mark.parametrize("field", ["theta", "eps", "num_kv_heads"])
def test_every_number_of_the_config_matters(field: str) -> None:
    container = random_container(1)
    changed = dataclasses.replace(container, **{field: {"theta": 90.0, "eps": 1e-2, "num_kv_heads": 1}[field]})
    if field == "num_kv_heads":
        cut = tuple(dataclasses.replace(layer, k=layer.k[:4], v=layer.v[:4]) for layer in container.layers)
        changed = dataclasses.replace(changed, layers=cut)
    (left,), (right,) = Qwen3(container).forward([(1, 2, 3)]), Qwen3(changed).forward([(1, 2, 3)])
    assert np.abs(left.scores - right.scores).max() > 1e-4


def test_equal_rows_of_the_head_have_equal_scores_to_the_last_bit() -> None:
    head = RNG(0).normal(0, 1, (40, 16))
    head[31] = head[7]
    scores = Readout(head).scores(RNG(1).normal(0, 1, (5, 9, 16)))
    assert np.array_equal(scores[..., 7], scores[..., 31])
    np.testing.assert_allclose(scores[2, 3], head @ RNG(1).normal(0, 1, (5, 9, 16))[2, 3], atol=1e-12)


def test_of_equal_scores_the_lowest_id_is_best_and_the_margin_is_over_the_next_smaller_one() -> None:
    scores = np.array([[0.0, 4.0, 1.0, 4.0], [-8.0, -2.0, -4.0, -3.0], [7.0, 7.0, 7.0, 7.0]])
    assert best(scores).tolist() == [1, 1, 0]
    assert margins(scores).tolist() == [0.75, 0.125, 2.0]


def test_query_heads_share_kv_heads_in_order() -> None:
    q = np.arange(4.0).reshape(1, 4, 1)
    assert grouped(q, 2).tolist() == [[[[0.0], [1.0]], [[2.0], [3.0]]]]


def test_small_functions_by_hand() -> None:
    assert rms(np.array([3.0, 4.0]), np.array([1.0, 2.0]), 0.5).tolist() == pytest.approx([3 / math.sqrt(13), 8 / math.sqrt(13)])
    assert silu(np.array([0.0, 1.0, -1e4, 1e4])).tolist() == pytest.approx([0, 1 / (1 + math.exp(-1)), 0, 1e4])
    weights = softmax(np.array([0.0, math.log(3), 9e9]), np.array([True, True, False]))
    assert weights.tolist() == pytest.approx([0.25, 0.75, 0.0])
