"""A draft trunk as an engine runs it: context rows are committed round after round, a block sees them and itself.

A second way to compute what drafter.py computes, in small steps that faults (context_faults.py, block_faults.py, conv_faults.py)
replace one at a time. All rounds of a stream are run side by side, which is the same as one after the other, since each sees
only what was committed before.
Letters: R rounds, C committed rows, B slots of a block, H hidden, d head_dim, q and k query and key/value heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.draft_shape import DraftShape
from harness.fabricate.rounds import Rounds, Rows
from harness.fabricate.transformer import Weights, merge_heads, rms_norm, silu, softmax

Positions = NDArray[np.int64]
Seen = NDArray[np.bool_]
Function = Callable[[int, Rows, Rows], Rows]
Deltas = NDArray[np.float64]  # [R, B, 2, K, G]


@dataclass(frozen=True, slots=True)
class Context:
    """What was committed, oldest first; a round sees the first `counts[r]` rows."""

    rows: Rows  # [C, H]
    positions: Positions  # [C]
    counts: Positions  # [R]


class RoundTrunk:
    """The trunk of a pack over a target, on the rounds of one stream."""

    def __init__(self, weights: Weights, shape: DraftShape, embedding: Rows, target_norm: Rows, rounds: Rounds) -> None:
        self.weights, self.shape, self.rounds = weights, shape, rounds
        self.embedding = embedding  # [V, H]
        self.target_norm = target_norm  # [H], which a drafter has no use for
        self.context = self._context()

    @classmethod
    def applies(cls, shape: DraftShape, positions: int) -> bool:
        """Whether a fault could show on such a pack, with streams of so many positions."""
        del shape, positions
        return True

    def hidden(self) -> Rows:
        """Return the final hidden rows [R, B, H] of all blocks, the anchors' own slots included."""
        x = self._embedded()
        for layer in range(self.shape.layers):
            x = self._sublayer(x, layer, "input_layernorm", "attention_conv", self._attention)
            x = self._sublayer(x, layer, "post_attention_layernorm", "mlp_conv", self._feed_forward)
        return self._final(x)

    def _final(self, x: Rows) -> Rows:
        return self._rms(x, "norm.weight")

    # Context

    def _context(self) -> Context:
        parts, positions = [self.rounds.prompt_rows], [np.arange(len(self.rounds.prompt_rows))]
        counts = [len(parts[0])]
        for one in self.rounds.rounds[:-1]:
            parts.append(self._kept(one.rows, one.accepted))
            positions.append(self._positions_of(counts[-1], len(parts[-1])))
            counts.append(counts[-1] + len(parts[-1]))
        return Context(self._mapped(np.concatenate(parts)), np.concatenate(positions), np.array(counts))

    def _kept(self, rows: Rows, accepted: int) -> Rows:
        """Return the rows of a pass that are committed: the anchor's and those of accepted drafts."""
        return rows[: accepted + 1]

    def _positions_of(self, committed: int, count: int) -> Positions:
        return np.arange(committed, committed + count)

    def _tap_ids(self) -> tuple[int, ...]:
        return self.shape.taps

    def _mapped(self, streams: Rows) -> Rows:
        """Return context rows [C, H] of tap rows [C, 1 + L, H]; row 0 of a stream is the embedding."""
        taps = np.concatenate([streams[:, 1 + tap] for tap in self._tap_ids()], axis=-1)
        return self._context_norm(taps @ self.weights["fc.weight"].T)

    def _context_norm(self, rows: Rows) -> Rows:
        return self._rms(rows, "hidden_norm.weight")

    def _context_input(self, layer: int, rows: Rows) -> Rows:
        """Return what a layer's keys and values are projected from."""
        del layer
        return rows

    # The block

    def _mask_id(self) -> int:
        return self.shape.mask_token_id

    def _scaled(self, blocks: Rows) -> Rows:
        return blocks * self.shape.input_embedding_scale

    def _embedded(self) -> Rows:
        ids = np.full((len(self.rounds.rounds), self.shape.block_size), self._mask_id())
        ids[:, 0] = self.rounds.anchors
        return self._scaled(self.embedding[ids])

    def _block_positions(self) -> Positions:
        return self.rounds.starts[:, None] + np.arange(self.shape.block_size)

    # A layer

    def _sublayer(self, x: Rows, layer: int, norm: str, conv: str, function: Function) -> Rows:
        """Return x plus what a sublayer makes of it; the function gets its input, and the input before it was mixed."""
        y = self._rms(x, f"layers.{layer}.{norm}.weight")
        if self.shape.generation_2 is None:
            return np.asarray(x + function(layer, y, y))
        base = self.weights[f"layers.{layer}.{conv}.base_kernel"]
        deltas = self._deltas(y, self.weights[f"layers.{layer}.{conv}.kernel_projection.weight"])
        h = self._mixed(0, y, base, deltas)
        return self._added(x, self._output(function(layer, h, y), conv, base, deltas))

    def _output(self, rows: Rows, conv: str, base: Rows, deltas: Deltas) -> Rows:
        del conv
        return self._mixed(1, rows, base, deltas)

    def _added(self, x: Rows, output: Rows) -> Rows:
        return x + output

    def _deltas(self, y: Rows, projection: Rows) -> Deltas:
        """Return what each slot adds to its own coefficients, of both sides, all taps and all groups."""
        taps = self._sizes()[0]
        return (y @ projection.T).reshape(*y.shape[:2], 2, taps, -1)

    def _mixed(self, side: int, rows: Rows, base: Rows, deltas: Deltas) -> Rows:
        """Return each channel of each slot as a sum over the slot itself and those before it."""
        taps = self._sizes()[0]
        total = np.zeros_like(rows)
        for tap in range(taps):
            total += self._coefficients(side, tap, base, deltas) * self._earlier(rows, tap)
        return total

    def _coefficients(self, side: int, tap: int, base: Rows, deltas: Deltas) -> Rows:
        """Return the coefficient of each channel of each slot for one tap, [R, B, H]."""
        return np.asarray(base[side, tap] + self._per_channel(deltas[:, :, side, tap]))

    def _per_channel(self, by_group: Rows) -> Rows:
        """Return values of groups [..., G] for each of their channels [..., H]."""
        return np.repeat(by_group, self._sizes()[1], axis=-1)

    def _earlier(self, rows: Rows, count: int) -> Rows:
        """Return for each slot the row that many slots before it; zero before the block."""
        shifted = np.zeros_like(rows)
        shifted[:, count:] = rows[:, : rows.shape[1] - count]
        return shifted

    def _sizes(self) -> tuple[int, int]:
        """Return taps and channels of a group."""
        assert self.shape.generation_2 is not None
        return self.shape.generation_2.conv_kernel_size, self.shape.generation_2.conv_group_size

    def _feed_forward(self, layer: int, h: Rows, unmixed: Rows) -> Rows:
        del unmixed
        gate, up, down = (self.weights[f"layers.{layer}.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        return (silu(h @ gate.T) * (h @ up.T)) @ down.T

    def _attention(self, layer: int, h: Rows, unmixed: Rows) -> Rows:
        """Attend from the slots [R, B, H] to what was committed before each round, and to the round's own block."""
        context, positions = self.context, self._block_positions()
        query = self._turned(self._by_head(layer, "q", h), positions[:, None])  # [R, q, B, d]
        source = self._block_input(h, unmixed)
        block_keys = self._turned(self._by_head(layer, "k", source), positions[:, None])  # [R, k, B, d]
        committed = self._context_input(layer, context.rows)
        keys = self._turned(self._context_keys(layer, committed), context.positions)  # [k, C, d]
        seen = self._seen(layer, positions)
        shares = self._shares(query, self._shared(keys), self._shared(block_keys), seen)
        num_committed = len(context.rows)
        mixed = shares[..., :num_committed] @ self._shared(self._by_head(layer, "v", committed))
        mixed = mixed + shares[..., num_committed:] @ self._shared(self._by_head(layer, "v", source))
        return merge_heads(mixed) @ self.weights[f"layers.{layer}.self_attn.o_proj.weight"].T

    def _shares(self, query: Rows, keys: Rows, block_keys: Rows, seen: Seen) -> Rows:
        scores = np.concatenate([query @ np.swapaxes(one, -1, -2) for one in (keys, block_keys)], axis=-1)
        hidden = np.where(seen, 0.0, -np.inf)[:, None]
        return softmax(scores / np.sqrt(self.shape.head_dim) + hidden)

    def _block_input(self, h: Rows, unmixed: Rows) -> Rows:
        """Return what keys and values of the block are projected from."""
        del unmixed
        return h

    def _seen(self, layer: int, positions: Positions) -> Seen:
        """Return which committed rows and slots each slot sees, [R, B, C + B]."""
        context = self.context
        rounds, slots = positions.shape
        keys = np.concatenate([np.broadcast_to(context.positions, (rounds, len(context.positions))), positions], axis=1)
        there = np.concatenate(
            [np.arange(len(context.positions)) < context.counts[:, None], np.ones((rounds, slots), bool)], axis=1
        )
        behind = positions[:, :, None] - keys[:, None]
        return there[:, None] & self._may_see(layer, behind)

    def _may_see(self, layer: int, behind: Positions) -> Seen:
        """Return whether a slot sees a key so many positions behind it; negative = ahead."""
        seen = behind >= 0 if self._is_causal(layer) else np.ones(behind.shape, np.bool_)
        window = self._window_of(layer)
        return seen if window is None else seen & (np.abs(behind) < window)

    def _is_causal(self, layer: int) -> bool:
        return self.shape.is_causal(layer)

    def _window_of(self, layer: int) -> int | None:
        return self.shape.window_of(layer)

    def _by_head(self, layer: int, part: str, rows: Rows) -> Rows:
        """Return queries, keys or values [..., head, T, d]; queries and keys are normed."""
        projected = rows @ self.weights[f"layers.{layer}.self_attn.{part}_proj.weight"].T
        split = np.swapaxes(projected.reshape(*projected.shape[:-1], -1, self.shape.head_dim), -2, -3)
        return split if part == "v" else self._rms(split, f"layers.{layer}.self_attn.{part}_norm.weight")

    def _context_keys(self, layer: int, committed: Rows) -> Rows:
        return self._by_head(layer, "k", committed)

    def _theta(self) -> float:
        return self.shape.rope_theta

    def _turned(self, x: Rows, positions: Positions) -> Rows:
        """Turn the pairs (j, j + d / 2)."""
        half = x.shape[-1] // 2
        turns = np.exp(1j * positions[..., None] * self._theta() ** (-np.arange(half) / half))
        return self._joined(self._pairs(x) * turns)

    def _pairs(self, x: Rows) -> NDArray[np.complex128]:
        half = x.shape[-1] // 2
        return np.asarray(x[..., :half] + 1j * x[..., half:])

    def _joined(self, pairs: NDArray[np.complex128]) -> Rows:
        return np.concatenate([pairs.real, pairs.imag], axis=-1)

    def _shared(self, by_kv_head: Rows) -> Rows:
        """Repeat [..., k, T, d] for the query heads: neighbours share."""
        return np.repeat(by_kv_head, self.shape.heads // self.shape.kv_heads, axis=-3)

    def _rms(self, rows: Rows, name: str) -> Rows:
        return np.asarray(rms_norm(rows, self.weights[name], self.shape.rms_norm_eps))
