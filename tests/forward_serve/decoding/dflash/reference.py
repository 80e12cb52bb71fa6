"""A drafter written plainly from the description of the format: float64, one slot, one head and one channel at a time.

It shares nothing with the engine. Each line that the tests turn into a fault (faults.py) stands in it exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float64 inside, whatever comes in


class PlainDrafter:
    """The drafter of one request: it keeps a context row for each committed position."""

    def __init__(self, config: dict[str, Any], tensors: Mapping[str, Any], table: Any, lm_head: Any, bound: int) -> None:
        """`table` and `lm_head` [V, H] are the target's; ids from `bound` on are padding."""
        self.config = config
        self.inner = config["dflash_config"]
        self.is_second = config["architectures"] == ["DFlash2DraftModel"]
        self.weights: dict[str, Array] = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
        self.table, self.lm_head, self.bound = table.astype(np.float64), lm_head.astype(np.float64), bound
        self.block_size: int = self.inner.get("block_size", config.get("block_size"))
        self.theta: float = config.get("rope_parameters", config)["rope_theta"]
        self.context: list[Array] = []
        self.positions: list[int] = []
        self.smallest_gap = np.inf  # of all choices so far, between what was taken and the best that was not

    def commit(self, layers: Array, num_kept: int) -> None:
        """Take the first rows of a pass; `layers` [rows, target layers, H] is the stream after each layer of the target."""
        ids = self.inner["target_layer_ids"]
        start = len(self.positions)
        kept = layers[:num_kept]
        for row, streams in enumerate(kept):
            taps = np.concatenate([streams[layer] for layer in ids])
            mapped = self.weights["fc.weight"] @ taps
            self.context.append(rms(mapped, self.weights["hidden_norm.weight"]))
            self.positions.append(start + row)

    def hidden(self, anchor: int) -> Array:
        """Return the hidden rows [B, H] of the block behind the context."""
        mask = self.inner["mask_token_id"]
        ids = [anchor] + [mask] * (self.block_size - 1)
        x = self.table[ids] * self.inner.get("input_embedding_scale", 1.0)
        for layer in range(self.config["num_hidden_layers"]):
            x = self.sublayer(x, layer, "input_layernorm", "attention_conv", self.attention)
            x = self.sublayer(x, layer, "post_attention_layernorm", "mlp_conv", self.mlp)
        return np.array([rms(row, self.weights["norm.weight"]) for row in x])

    def sublayer(self, x: Array, layer: int, norm: str, conv: str, function: Callable[[Array, int], Array]) -> Array:
        """Return x plus what the sublayer makes of it."""
        y = np.array([rms(row, self.weight(layer, f"{norm}.weight")) for row in x])
        if not self.is_second:
            return x + function(y, layer)
        deltas = self.deltas(y, layer, conv)
        base = self.weight(layer, f"{conv}.base_kernel")
        h = self.convolved(0, y, base, deltas)
        output = function(h, layer)
        return x + self.convolved(1, output, base, deltas)

    def deltas(self, y: Array, layer: int, conv: str) -> Array:
        """Return what each slot adds to the coefficients of both sides, all taps and all groups."""
        return y @ self.weight(layer, f"{conv}.kernel_projection.weight").T

    def convolved(self, side: int, rows: Array, base: Array, deltas: Array) -> Array:
        """Return each channel of each slot as a sum over the slot itself and the ones before it."""
        num_taps = self.inner["conv_kernel_size"]
        group_size = self.inner["conv_group_size"]
        num_groups = self.config["hidden_size"] // group_size
        result = np.zeros(rows.shape)
        for slot in range(len(rows)):
            for channel in range(self.config["hidden_size"]):
                group = channel // group_size
                for tap in range(num_taps):
                    source = slot - tap
                    if source < 0:
                        continue
                    delta = deltas[slot, (side * num_taps + tap) * num_groups + group]
                    result[slot, channel] += (base[side, tap, channel] + delta) * rows[source, channel]
        return result

    def attention(self, h: Array, layer: int) -> Array:
        """Attend from the slots to the context and to each other."""
        start, head_dim = len(self.positions), self.config["head_dim"]
        slots = [start + slot for slot in range(len(h))]
        places = self.positions + slots
        context = self.context
        group = self.config["num_attention_heads"] // self.config["num_key_value_heads"]
        mixed = np.zeros((len(h), self.config["num_attention_heads"] * head_dim))
        keys_of, values_of = self.keys_and_values([*context, *h], places, layer)
        for head in range(self.config["num_attention_heads"]):
            kv_head = head // group
            keys, values = keys_of[kv_head], values_of[kv_head]
            of_query = slice(head * head_dim, (head + 1) * head_dim)
            for slot, row in enumerate(h):
                query = self.weight(layer, "self_attn.q_proj.weight")[of_query] @ row
                query = rope(rms(query, self.weight(layer, "self_attn.q_norm.weight")), slots[slot], self.theta)
                seen = [key for key in range(len(places)) if self.sees(layer, slots[slot], places[key])]
                scores = np.array([query @ keys[key] for key in seen]) / np.sqrt(head_dim)
                share = np.exp(scores - scores.max())
                mixed[slot, of_query] = share / share.sum() @ np.array([values[key] for key in seen])
        return mixed @ self.weight(layer, "self_attn.o_proj.weight").T

    def keys_and_values(self, rows: list[Array], places: list[int], layer: int) -> tuple[list[list[Array]], list[list[Array]]]:
        """Return the turned keys and the values of all rows, for each key head."""
        head_dim = self.config["head_dim"]
        keys: list[list[Array]] = []
        values: list[list[Array]] = []
        for kv_head in range(self.config["num_key_value_heads"]):
            of_key = slice(kv_head * head_dim, (kv_head + 1) * head_dim)
            keys.append([])
            values.append([])
            for row, place in zip(rows, places, strict=True):
                key = self.weight(layer, "self_attn.k_proj.weight")[of_key] @ row
                key = rms(key, self.weight(layer, "self_attn.k_norm.weight"))
                keys[-1].append(rope(key, place, self.theta))
                values[-1].append(self.weight(layer, "self_attn.v_proj.weight")[of_key] @ row)
        return keys, values

    def sees(self, layer: int, query: int, key: int) -> bool:
        """Say whether the slot at position `query` sees position `key`."""
        types = self.config.get("layer_types", ["full_attention"] * self.config["num_hidden_layers"])
        slides = types[layer] == "sliding_attention"
        is_causal = self.config.get("is_causal")
        causal = slides if is_causal is None else is_causal
        if causal and key > query:
            return False
        if not slides:
            return True
        window: int = self.config["sliding_window"]
        return query - key < window and (causal or key - query < window)

    def mlp(self, h: Array, layer: int) -> Array:
        """The gated feed-forward."""
        gate = h @ self.weight(layer, "mlp.gate_proj.weight").T
        up = h @ self.weight(layer, "mlp.up_proj.weight").T
        output: Array = (gate / (1 + np.exp(-gate)) * up) @ self.weight(layer, "mlp.down_proj.weight").T
        return output

    def weight(self, layer: int, name: str) -> Array:
        """One tensor of a layer."""
        return self.weights[f"layers.{layer}.{name}"]

    def logits(self, row: Array) -> list[float]:
        """Return the scaled and capped logits of all ids below the bound."""
        bound = self.bound
        z = self.lm_head[:bound] @ row
        z = z * self.inner.get("output_multiplier", 1.0)  # before the cap
        cap = self.inner.get("final_logit_softcapping")
        return list(cap * np.tanh(z / cap) if cap else z)

    def drafts(self, hidden: Array, anchor: int) -> list[int]:
        """Return the draft of each slot behind the anchor."""
        drafts: list[int] = []
        previous = anchor
        for slot in range(1, len(hidden)):
            z = self.logits(hidden[slot])
            row = hidden[slot]
            best = self.chosen(row, z, previous) if self.is_second else self.best(range(len(z)), z)
            drafts.append(best)
            previous = best
        return drafts

    def candidates(self, z: list[float]) -> list[int]:
        """Return the ids of the largest logits."""
        top_k = self.inner["selector_top_k"]
        ordered = sorted(range(len(z)), key=lambda token: (-z[token], token))
        if top_k < len(ordered):
            self.smallest_gap = min(self.smallest_gap, z[ordered[top_k - 1]] - z[ordered[top_k]])
        return ordered[:top_k]

    def chosen(self, row: Array, z: list[float], previous: int) -> int:
        """Return the candidate that the selector likes best behind `previous`."""
        gate = self.weights["candidate_selector.hidden_projection.weight"] @ row
        first, second = "predecessor_codebook", "successor_codebook"
        before = self.weights[f"candidate_selector.{first}"][previous]
        scores = {}
        for token in self.candidates(z):
            after = self.weights[f"candidate_selector.{second}"][token]
            edge = sum(before[i] * gate[i] * after[i] for i in range(self.inner["selector_rank"]))
            scores[token] = z[token] + edge
        return self.best(scores.keys(), scores)

    def best(self, tokens: Any, scores: Any) -> int:
        """Return the token with the largest score, the lowest of equal ones."""
        ordered = sorted(tokens, key=lambda token: (-scores[token], token))
        if len(ordered) > 1:
            self.smallest_gap = min(self.smallest_gap, scores[ordered[0]] - scores[ordered[1]])
        return int(ordered[0])


def rms(row: Array, weight: Array) -> Array:
    """Divide by the root mean square, multiply by the weight."""
    normed: Array = row / np.sqrt((row**2).mean() + 1e-6) * weight
    return normed


def rope(row: Array, position: int, theta: float) -> Array:
    """Turn the pairs (j, j + d / 2)."""
    half = len(row) // 2
    pairs = row[:half] + 1j * row[half:]
    pairs = pairs * np.exp(1j * position * theta ** (-2 * np.arange(half) / len(row)))
    return np.concatenate([pairs.real, pairs.imag])
