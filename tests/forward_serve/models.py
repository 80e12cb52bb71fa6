"""Small models of both shapes that matter, and bases over them. For tests only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forward_serve.container import Container, LayerWeights, Qwen3Config, Weights
from forward_serve.products import KEY_MULTIPLE, HostProducts, Products
from forward_serve.qwen3 import Qwen3Base
from forward_serve.taps import TapSink

NUM_IDS = 2 * KEY_MULTIPLE + 20  # long enough to cross the padding of the keys twice
Floats = NDArray[np.float32]


def grouped_container() -> Container:
    """Random weights: three layers, four query heads on two key heads, a padded vocabulary, an inner size of its own."""
    config = Qwen3Config(
        vocab_size=288,
        hidden_size=256,
        intermediate_size=320,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=NUM_IDS + 10,
        rms_norm_eps=1e-5,
        rope_theta=1e4,
    )
    return random_container(config, vocab_bound=261, seed=7)


def random_container(config: Qwen3Config, vocab_bound: int, seed: int) -> Container:
    rng = np.random.default_rng(seed)

    def weight(num_rows: int, num_columns: int) -> Floats:
        return rng.standard_normal((num_rows, num_columns), dtype=np.float32) * np.float32(num_columns**-0.5)

    def norm(size: int) -> Floats:
        return rng.uniform(0.5, 1.5, size).astype(np.float32)

    hidden, inner, head_dim = config.hidden_size, config.intermediate_size, config.head_dim
    query_size = config.num_attention_heads * head_dim
    key_size = config.num_key_value_heads * head_dim
    layers = tuple(
        LayerWeights(
            input_norm=norm(hidden),
            post_attention_norm=norm(hidden),
            query_norm=norm(head_dim),
            key_norm=norm(head_dim),
            qkv=weight(query_size + 2 * key_size, hidden),
            output=weight(hidden, query_size),
            gate_up=weight(2 * inner, hidden),
            down=weight(hidden, inner),
        )
        for _ in range(config.num_hidden_layers)
    )
    weights = Weights(weight(config.vocab_size, hidden), norm(hidden), weight(config.vocab_size, hidden), layers)
    return Container(Path(), config, weights, "{}", {}, None, frozenset(), vocab_bound)


def new_base(
    container: Container, tap_layers: Sequence[int] = (), keep_hidden: bool = False, products: Products | None = None
) -> Qwen3Base:
    config = container.config
    sink = TapSink(tap_layers, config.hidden_size, config.max_position_embeddings) if tap_layers else None
    return Qwen3Base(container, products or HostProducts(), sink, keep_hidden)


def some_ids(container: Container, num_ids: int, seed: int = 0) -> list[int]:
    ids: list[int] = np.random.default_rng(seed).integers(0, container.vocab_bound, num_ids).tolist()
    return ids


def one_by_one(base: Qwen3Base, ids: Sequence[int]) -> Floats:
    """Logits [ids, V] of one-row passes."""
    return np.concatenate([base.forward([token]) for token in ids])


def sink_of(base: Qwen3Base) -> TapSink:
    assert base.tap_sink is not None
    return base.tap_sink
