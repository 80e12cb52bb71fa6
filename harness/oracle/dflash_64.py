"""The DFlash drafter in float64, generations 1 and 2: context rows from the target's taps, and the hidden rows of whole blocks.

It knows neither the loop nor which draft wins (pick_64). Source: the format's page, sections 2 and 3. Nothing is kept between
calls: the context of a sequence is what its taps give, whichever tokens came together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.oracle.arithmetic64 import Mask, Positions, grouped, heads, linear, rms, rotated, silu, softmax
from harness.oracle.pack64 import Convolution64, DraftLayer64, Pack64
from harness.oracle.tensors64 import Array


@dataclass(frozen=True, slots=True)
class Context:
    """Keys and values of every position of one sequence, for each draft layer: [n, kv heads, d]."""

    keys: tuple[Array, ...]
    values: tuple[Array, ...]


def context_of(pack: Pack64, streams: Array) -> Context:
    """Return the context that a target's streams [layers, n, H] give: taps in listed order, through fc, then normed."""
    taps = np.concatenate([streams[layer] for layer in pack.taps], axis=-1)
    rows = rms(linear(taps, pack.fc), pack.hidden_norm, pack.eps)
    positions = np.arange(len(rows))
    keys = tuple(_keys(pack, layer, rows, positions) for layer in pack.layers)
    values = tuple(heads(linear(rows, layer.v), pack.num_kv_heads) for layer in pack.layers)
    return Context(keys, values)


def drafted_rows(pack: Pack64, embedding: Array, context: Context, sequence: Sequence[int], places: Sequence[int]) -> Array:
    """Return the final hidden rows [places, block, H] of a full block behind the token at each place of a sequence.

    That token is slot 0; a block sees the context rows before its place, never the one at it. `embedding` is the target's [V, H].
    """
    blocks = np.full((len(places), pack.block_size), pack.mask_token)
    blocks[:, 0] = [sequence[place] for place in places]
    positions = np.asarray(places)[:, None] + np.arange(pack.block_size)
    x = embedding[blocks] * pack.embedding_scale
    for number, layer in enumerate(pack.layers):
        y = rms(x, layer.input_norm, pack.eps)
        x = x + _convolved(layer.attention_conv, y, _attention(pack, number, context, positions))
        y = rms(x, layer.post_norm, pack.eps)
        x = x + _convolved(layer.mlp_conv, y, _mlp(layer))
    return rms(x, pack.norm, pack.eps)


Sublayer = Callable[[Array], Array]


def _convolved(conv: Convolution64 | None, y: Array, sublayer: Sublayer) -> Array:
    """Apply a sublayer to normed rows, in generation 2 with a convolution before and after it, both driven by y itself."""
    if conv is None:
        return sublayer(y)
    _, num_taps, hidden = conv.base.shape
    deltas = linear(y, conv.projection).reshape(*y.shape[:-1], 2, num_taps, -1)
    kernels = conv.base + np.repeat(deltas, hidden // deltas.shape[-1], axis=-1)  # [..., slot, side, tap, channel]
    return convolution(kernels[..., 1, :, :], sublayer(convolution(kernels[..., 0, :, :], y)))


def convolution(kernels: Array, rows: Array) -> Array:
    """Return sum over o of kernels[..., t, o, :] * rows[..., t - o, :] for each slot t; what lies before the block is zero."""
    total = np.zeros_like(rows)
    for offset in range(min(kernels.shape[-2], rows.shape[-2])):
        for slot in range(offset, rows.shape[-2]):
            total[..., slot, :] += kernels[..., slot, offset, :] * rows[..., slot - offset, :]
    return total


def _attention(pack: Pack64, number: int, context: Context, positions: Positions) -> Sublayer:
    """Return attention of block rows over context and block; `positions` [places, block]."""
    layer = pack.layers[number]
    num_before = int(positions[:, 0].max())
    before = np.broadcast_to(np.arange(num_before), (len(positions), num_before))
    is_context = np.arange(num_before + pack.block_size) < num_before
    key_positions = np.concatenate([before, positions], axis=1)
    written = ~is_context | (key_positions < positions[:, :1])  # rows at and behind a place come after its block
    visible = visible_keys(layer, positions, key_positions) & written[:, None, :]

    context_keys, context_values = context.keys[number][:num_before], context.values[number][:num_before]

    def attention(h: Array) -> Array:
        q = rotated(rms(heads(linear(h, layer.q), pack.num_heads), layer.q_norm, pack.eps), positions, pack.theta)
        k, v = _keys(pack, layer, h, positions), heads(linear(h, layer.v), pack.num_kv_heads)
        q = grouped(q, pack.num_kv_heads)
        of_context = np.einsum("pqhgd,khd->phgqk", q, context_keys, optimize=True)  # the same rows for all places
        of_block = np.einsum("pqhgd,pkhd->phgqk", q, k, optimize=True)
        scores = np.concatenate([of_context, of_block], axis=-1) / np.sqrt(q.shape[-1])
        weights = softmax(scores, visible[:, None, None])
        seen = np.einsum("phgqk,khd->pqhgd", weights[..., :num_before], context_values, optimize=True)
        seen = seen + np.einsum("phgqk,pkhd->pqhgd", weights[..., num_before:], v, optimize=True)
        return linear(seen.reshape(*h.shape[:2], -1), layer.o)

    return attention


def visible_keys(layer: DraftLayer64, queries: Positions, keys: Positions) -> Mask:
    """Return which keys [..., keys] each slot [..., queries] may see, by absolute positions: the format's page, section 3.1."""
    ahead = keys[..., None, :] - queries[..., :, None]  # how far the key lies in front of the query
    visible = np.ones(ahead.shape, np.bool_)
    if layer.is_causal:
        visible &= ahead <= 0
    if layer.window is not None:
        visible &= -ahead < layer.window
        visible &= ahead < layer.window
    return visible


def _keys(pack: Pack64, layer: DraftLayer64, rows: Array, positions: Positions) -> Array:
    return rotated(rms(heads(linear(rows, layer.k), pack.num_kv_heads), layer.k_norm, pack.eps), positions, pack.theta)


def _mlp(layer: DraftLayer64) -> Sublayer:
    return lambda h: linear(silu(linear(h, layer.gate)) * linear(h, layer.up), layer.down)
