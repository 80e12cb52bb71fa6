"""The forward of a draft block: context keys and values from tap rows, then one pass over the block. Knows no token.

Float32 throughout. Letters of shapes: H hidden, T tapped layers, B slots of a block, d head_dim, hq and hk query and key/value
heads. Source: the DFlash reference (PyPI dflash 0.1.0, model.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forward_serve.decoding.dflash.arithmetic import Turn, attended, normed, silu, turn_at, turned
from forward_serve.decoding.dflash.context import ContextCache, HeadRows
from forward_serve.decoding.dflash.conv import through
from forward_serve.decoding.dflash.pack import DFlashPack, LayerWeights
from forward_serve.decoding.interfaces import Rows


class DraftTrunk:
    """The layers of one pack. It holds no state of a request: the context cache is the caller's."""

    def __init__(self, pack: DFlashPack) -> None:
        config = pack.config
        self._pack = pack
        self._config = config
        self._num_query_columns = config.num_attention_heads * config.head_dim
        exponents = np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim
        self._frequencies = config.rope_theta**-exponents  # [d / 2]

    def new_context(self) -> ContextCache:
        """Return an empty cache for one request."""
        return ContextCache(len(self._pack.layers), self._config.num_key_value_heads, self._config.head_dim)

    def extend(self, context: ContextCache, taps: Rows) -> None:
        """Append the context of the next positions, from their tap rows [n, T H].

        In one call or in several: a row's context depends on its own tap row and position alone.
        """
        start = context.num_positions
        rows = normed(taps @ self._pack.fc, self._pack.hidden_norm, self._config.rms_norm_eps)
        turn = turn_at(start, len(rows), self._frequencies)
        context.reserve(start + len(rows))
        for index, layer in enumerate(self._pack.layers):
            columns = rows @ layer.qkv[:, self._num_query_columns :]
            context.write(index, start, *self._keys_and_values(columns, layer, turn))
        context.num_positions = start + len(rows)

    def block(self, context: ContextCache, embeddings: Rows) -> Rows:
        """Return the final-normed rows [B, H] of a block that follows the context; its keys and values do not persist."""
        turn = turn_at(context.num_positions, len(embeddings), self._frequencies)
        context.reserve(context.num_positions + len(embeddings))
        eps = self._config.rms_norm_eps
        x = embeddings * np.float32(self._config.input_embedding_scale)
        for index, layer in enumerate(self._pack.layers):

            def attention(rows: Rows, index: int = index, layer: LayerWeights = layer) -> Rows:
                return self._attention(rows, index, layer, turn, context)

            def mlp(rows: Rows, layer: LayerWeights = layer) -> Rows:
                return self._mlp(rows, layer)

            x = x + through(layer.attention_conv, normed(x, layer.input_norm, eps), attention)
            x = x + through(layer.mlp_conv, normed(x, layer.mlp_norm, eps), mlp)
        return normed(x, self._pack.norm, eps)

    def _attention(self, rows: Rows, index: int, layer: LayerWeights, turn: Turn, context: ContextCache) -> Rows:
        """Attend from the block to the context and to the block itself."""
        start, stop = context.num_positions, context.num_positions + len(rows)
        columns = rows @ layer.qkv
        context.write(index, start, *self._keys_and_values(columns[:, self._num_query_columns :], layer, turn))
        queries = columns[:, : self._num_query_columns].reshape(len(rows), -1, self._config.head_dim)
        queries = turned(normed(queries, layer.query_norm, self._config.rms_norm_eps), turn)
        window = self._config.windows[index]
        first = 0 if window is None else max(0, start - window + 1)  # no slot sees further back
        keys, values = context.read(index, first, stop)
        visible = visible_keys(start, first, stop, window, self._config.causal[index])
        return attended(queries, keys, values, visible) @ layer.output

    def _mlp(self, rows: Rows, layer: LayerWeights) -> Rows:
        gate, up = np.matmul(rows, layer.gate_up)  # [I / w, n, w] each
        mixed: Rows = np.matmul(silu(gate) * up, layer.down).sum(axis=0)
        return mixed

    def _keys_and_values(self, columns: Rows, layer: LayerWeights, turn: Turn) -> tuple[HeadRows, HeadRows]:
        """Split [n, 2 hk d] into normed, turned keys and plain values, each [hk, n, d]."""
        by_head = columns.reshape(len(columns), 2, -1, self._config.head_dim)
        keys = turned(normed(by_head[:, 0], layer.key_norm, self._config.rms_norm_eps), turn)
        return keys.transpose(1, 0, 2), by_head[:, 1].transpose(1, 0, 2)


def visible_keys(start: int, first: int, stop: int, window: int | None, causal: bool) -> NDArray[np.bool_] | None:
    """Return which keys at positions first .. stop - 1 the slots at start .. stop - 1 see, [slots, keys]; None = all.

    A key is hidden when it is `window` or more positions away, and when it is ahead of the slot of a causal layer.
    """
    if window is None and not causal:
        return None
    behind = np.arange(start, stop)[:, None] - np.arange(first, stop)
    visible = np.ones(behind.shape, np.bool_)
    if causal:
        visible &= behind >= 0
    if window is not None:
        visible &= np.abs(behind) < window
    return visible
