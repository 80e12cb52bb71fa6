"""The qwen3 forward in float64 over whole sequences: no cache, every position anew, an explicit mask.

It knows neither drafts nor replies. Source: the architecture of Qwen3 (q and k normed per head before RoPE, grouped queries,
SwiGLU, norms as plain multipliers) and the container's page for names and shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.oracle.arithmetic64 import Readout, grouped, heads, linear, rms, rotated, silu, softmax
from harness.oracle.container64 import Container64, Layer64
from harness.oracle.tensors64 import Array

Ids = tuple[int, ...]
_MOST_PADDING = 1.5  # sequences share a batch up to this ratio of their lengths


@dataclass(frozen=True, slots=True)
class Passed:
    """What a sequence of n tokens gave."""

    streams: Array  # [layers, n, H]: the residual stream after each layer
    scores: Array  # [n, V]: the logits after each token, padding rows included


class Qwen3:
    """One model. Its methods are functions of their arguments."""

    def __init__(self, container: Container64) -> None:
        self.container = container
        self.readout = Readout(container.head)

    def forward(self, sequences: Sequence[Ids]) -> tuple[Passed, ...]:
        """Run whole sequences of at least one token each, together where their lengths allow it."""
        passed: dict[int, Passed] = {}
        for batch in _batches(sequences):
            length = max(len(sequences[at]) for at in batch)
            ids = np.zeros((len(batch), length), np.int64)  # zeros behind a sequence: the mask lets nobody see them
            for row, at in enumerate(batch):
                ids[row, : len(sequences[at])] = sequences[at]
            streams, scores = self._run(ids)
            for row, at in enumerate(batch):
                passed[at] = Passed(streams[:, row, : len(sequences[at])], scores[row, : len(sequences[at])])
        return tuple(passed[at] for at in range(len(sequences)))

    def _run(self, ids: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> tuple[Array, Array]:
        """Run [rows, n] ids; return the streams [layers, rows, n, H] and the scores [rows, n, V]."""
        model = self.container
        x: Array = model.embedding[ids]
        streams = []
        for layer in model.layers:
            x = x + self._attention(layer, rms(x, layer.input_norm, model.eps))
            x = x + _mlp(layer, rms(x, layer.post_norm, model.eps))
            streams.append(x)
        final = rms(x, model.norm, model.eps)
        return np.stack(streams), self.readout.scores(final)

    def _attention(self, layer: Layer64, y: Array) -> Array:
        """Attend over all that came before, the row itself included; y is [rows, n, H]."""
        model = self.container
        positions = np.arange(y.shape[1])
        q = heads(linear(y, layer.q), model.num_heads)
        k = heads(linear(y, layer.k), model.num_kv_heads)
        v = heads(linear(y, layer.v), model.num_kv_heads)
        q = rotated(rms(q, layer.q_norm, model.eps), positions, model.theta)
        k = rotated(rms(k, layer.k_norm, model.eps), positions, model.theta)
        scores = np.einsum("bqhgd,bkhd->bhgqk", grouped(q, model.num_kv_heads), k, optimize=True) / np.sqrt(model.head_dim)
        weights = softmax(scores, positions[None, :] <= positions[:, None])
        seen = np.einsum("bhgqk,bkhd->bqhgd", weights, v, optimize=True)
        return linear(seen.reshape(*y.shape[:2], -1), layer.o)


def _mlp(layer: Layer64, y: Array) -> Array:
    return linear(silu(linear(y, layer.gate)) * linear(y, layer.up), layer.down)


def _batches(sequences: Sequence[Ids]) -> Iterator[list[int]]:
    """Yield the places of sequences that are run together, shortest first."""
    batch: list[int] = []
    for at in sorted(range(len(sequences)), key=lambda one: len(sequences[one])):
        if batch and len(sequences[at]) > _MOST_PADDING * len(sequences[batch[0]]):
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch
