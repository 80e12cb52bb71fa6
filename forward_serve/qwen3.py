"""The forward of a dense qwen3 model over rows, with its KV cache and taps. Knows no drafter, request or file format.

Letters: H hidden, I intermediate, NH query heads, NKV key heads, G = NH / NKV, D head_dim, V vocabulary.
Everything outside the products is elementwise or a sum over one row, in float32, so a row never depends on its
neighbours (see products.py for the rest of that promise).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forward_serve import products as host
from forward_serve.container import Container, LayerWeights, Qwen3Config
from forward_serve.errors import EngineError
from forward_serve.products import Products
from forward_serve.taps import TapSink

Rows = NDArray[np.float32]  # [rows, features]


class Qwen3Base:
    """A container's model as a `Base`: passes over the next positions, logits out, KV rows and tap rows kept."""

    def __init__(
        self,
        container: Container,
        products: Products,
        tap_sink: TapSink | None = None,
        keep_hidden: bool = False,
    ) -> None:
        """Prepare the weights and an empty KV cache of max_position_embeddings positions.

        `tap_sink` receives the rows of every pass; `keep_hidden` keeps the last pass's hidden rows for two-pass heads.
        """
        self.config = container.config
        self.vocab_bound = container.vocab_bound
        self.tap_sink = tap_sink
        self.pass_hook: Callable[[], None] | None = None  # called inside a pass, once its first KV rows are written
        self._products = products
        self._keep_hidden = keep_hidden
        self._last_hidden: Rows | None = None
        self._num_positions = 0
        self._weights = container.weights
        self._layers = [_Layer.prepare(layer, self.config, products) for layer in container.weights.layers]
        self._lm_head = products.prepare(container.weights.lm_head)
        self._cos, self._sin = rope_tables(self.config)
        self._keys, self._values = _empty_cache(self.config, products.key_multiple)
        self._check_taps()

    def _check_taps(self) -> None:
        if self.tap_sink is not None and max(self.tap_sink.layer_ids) >= self.config.num_hidden_layers:
            raise EngineError(
                f"tap layer {max(self.tap_sink.layer_ids)}: the model has layers 0 to {self.config.num_hidden_layers - 1}"
            )

    @property
    def width(self) -> int:
        """Rows of one pass at most: those of the products."""
        return self._products.width

    @property
    def num_positions(self) -> int:
        """Positions that the KV cache holds."""
        return self._num_positions

    @property
    def last_hidden(self) -> Rows | None:
        """Final-normed hidden rows [rows, H] of the last pass; None without `keep_hidden` or before a pass."""
        return self._last_hidden

    def forward(self, ids: Sequence[int]) -> Rows:
        """Run one pass over `ids` (1 to `width`, each below V) at the next positions and return logits [rows, V].

        The pass counts whole or not at all: whatever raises inside it leaves positions and taps as they were.
        """
        return self._products.linear(self._run(ids), self._lm_head)

    def prefill(self, ids: Sequence[int]) -> Rows:
        """Run `ids` in passes of `width` rows and return the logits [V] of the last one; finished passes stay."""
        if not ids:
            raise EngineError("prefill of no ids: a prompt has one id or more")
        for first in range(0, len(ids), self.width):
            hidden = self._run(ids[first : first + self.width])
        logits: Rows = self._products.linear(hidden[-1:], self._lm_head)[0]
        return logits

    def truncate(self, num_positions: int) -> None:
        """Cut the KV cache to `num_positions` positions, and as many rows off the end of the taps."""
        if not 0 <= num_positions <= self._num_positions:
            raise EngineError(f"cut to {num_positions} positions: the cache holds {self._num_positions}")
        if self.tap_sink is not None:
            num_cut = self._num_positions - num_positions
            self.tap_sink.truncate(max(0, len(self.tap_sink) - num_cut))
        self._num_positions = num_positions

    def reset(self) -> None:
        """Start again at position 0 with no taps."""
        self.truncate(0)
        self._last_hidden = None
        if self.tap_sink is not None:
            self.tap_sink.clear()

    def embed(self, ids: Sequence[int]) -> Rows:
        """Return the raw embedding rows [n, H] of `ids`, padded vocabulary rows included."""
        self._check_ids(ids)
        return self._weights.embedding[np.asarray(ids, np.intp)]

    def head(self, hidden: Rows) -> Rows:
        """Return logits [n, V] of final-normed `hidden` [n, H], on the host whatever the products: drafters run there."""
        return host.linear(hidden, self._weights.lm_head)

    def _check_ids(self, ids: Sequence[int]) -> None:
        if not ids or min(ids) < 0 or max(ids) >= self.config.vocab_size:
            raise EngineError(f"ids {list(ids)}: one or more wanted, each from 0 to {self.config.vocab_size - 1}")

    def _check_pass(self, ids: Sequence[int]) -> None:
        self._check_ids(ids)
        if len(ids) > self.width:
            raise EngineError(f"a pass of {len(ids)} rows: the products take {self.width} at most")
        context = self.config.max_position_embeddings
        if self._num_positions + len(ids) > context:
            raise EngineError(f"a pass of {len(ids)} rows at position {self._num_positions}: the context ends at {context}")

    def _run(self, ids: Sequence[int]) -> Rows:
        """Run one pass, commit its KV and tap rows, and return the final-normed hidden rows [rows, H]."""
        self._check_pass(ids)
        self._products.begin_pass()
        rows = self._weights.embedding[np.asarray(ids, np.intp)]
        after_layer: list[Rows] = []
        for index, layer in enumerate(self._layers):
            rows = rows + self._attention(index, layer, rows)
            rows += self._mlp(layer, rows)
            after_layer.append(rows)
        hidden = rms_norm(rows, self._weights.final_norm, self.config.rms_norm_eps)
        if self.tap_sink is not None:
            self.tap_sink.append([after_layer[layer_id] for layer_id in self.tap_sink.layer_ids])
        self._num_positions += len(ids)
        self._last_hidden = hidden if self._keep_hidden else None
        return hidden

    def _attention(self, index: int, layer: _Layer, rows: Rows) -> Rows:
        """Return the attention output [rows, H] of layer `index`, after writing the rows' keys and values."""
        config, start = self.config, self._num_positions
        stop = start + len(rows)
        num_heads, num_kv_heads = config.num_attention_heads, config.num_key_value_heads
        normed = rms_norm(rows, layer.weights.input_norm, config.rms_norm_eps)
        heads = self._products.linear(normed, layer.qkv).reshape(len(rows), num_heads + 2 * num_kv_heads, -1)
        query_key = rms_norm(heads[:, :-num_kv_heads], layer.query_key_norm, config.rms_norm_eps)
        query_key = rotate(query_key, self._cos[start:stop], self._sin[start:stop])
        keys, values = self._keys[index], self._values[index]
        keys[:, start:stop] = query_key[:, num_heads:].swapaxes(0, 1)
        values[:, start:stop] = heads[:, -num_kv_heads:].swapaxes(0, 1)
        if index == 0 and self.pass_hook is not None:
            self.pass_hook()
        query = query_key[:, :num_heads].reshape(len(rows), num_kv_heads, num_heads // num_kv_heads, -1)
        mixed = self._products.attend(query, keys, values, start)
        return self._products.linear(mixed.reshape(len(rows), -1), layer.output)

    def _mlp(self, layer: _Layer, rows: Rows) -> Rows:
        """Return the feed-forward output [rows, H]."""
        normed = rms_norm(rows, layer.weights.post_attention_norm, self.config.rms_norm_eps)
        gate_up = self._products.linear(normed, layer.gate_up)
        inner = self.config.intermediate_size
        return self._products.linear(silu(gate_up[:, :inner]) * gate_up[:, inner:], layer.down)


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """One layer's weights as the products want them."""

    weights: LayerWeights
    qkv: Rows
    output: Rows
    gate_up: Rows
    down: Rows
    query_key_norm: Rows  # [NH + NKV, D]: q_norm for each query head, then k_norm for each key head

    @classmethod
    def prepare(cls, weights: LayerWeights, config: Qwen3Config, products: Products) -> _Layer:
        query_norm = np.tile(weights.query_norm, (config.num_attention_heads, 1))
        key_norm = np.tile(weights.key_norm, (config.num_key_value_heads, 1))
        return cls(
            weights=weights,
            qkv=products.prepare(weights.qkv),
            output=products.prepare(weights.output),
            gate_up=products.prepare(weights.gate_up),
            down=products.prepare(weights.down),
            query_key_norm=np.concatenate([query_norm, key_norm]),
        )


def rms_norm(rows: Rows, weight: Rows, eps: float) -> Rows:
    """Return rows / sqrt(mean(rows ** 2) + eps) * weight over the last axis."""
    mean_square = np.vecdot(rows, rows) / np.float32(rows.shape[-1])
    normed: Rows = rows / np.sqrt(mean_square + np.float32(eps))[..., None]
    normed *= weight
    return normed


def rope_tables(config: Qwen3Config) -> tuple[Rows, Rows]:
    """Return cosines and signed sines [context, 1, 2, D / 2] for `rotate`, computed in float64."""
    half = config.head_dim // 2
    frequencies = config.rope_theta ** (-np.arange(half) / half)
    angles = np.arange(config.max_position_embeddings)[:, None] * frequencies
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    return np.stack([cos, cos], axis=1)[:, None], np.stack([-sin, sin], axis=1)[:, None]


def rotate(heads: Rows, cos: Rows, sin: Rows) -> Rows:
    """Return `heads` [rows, heads, D] rotated by position, halves paired as in Hugging Face's rotate_half."""
    halves = heads.reshape(*heads.shape[:-1], 2, -1)
    turned = halves * cos
    turned += halves[..., ::-1, :] * sin
    return turned.reshape(heads.shape)


def silu(gate: Rows) -> Rows:
    """Return gate * sigmoid(gate)."""
    with np.errstate(over="ignore"):  # exp of a large number is inf, and gate / inf the right 0
        denominator: Rows = np.exp(-gate)
    denominator += 1
    activated: Rows = gate / denominator
    return activated


def _empty_cache(config: Qwen3Config, key_multiple: int) -> tuple[Rows, Rows]:
    """Return zeroed keys and values [layers, NKV, capacity, D]; zeroed, since attention reads padding as finite."""
    capacity = -(-config.max_position_embeddings // key_multiple) * key_multiple
    shape = (config.num_hidden_layers, config.num_key_value_heads, capacity, config.head_dim)
    return np.zeros(shape, np.float32), np.zeros(shape, np.float32)
