"""What replies would show of faults in the cache: one row at a time is spoilt, in all layers, and the reply forced again.

A fault sits in the row of one position and acts on the queries behind it, from the first decode step on; the prompt's own pass
is clean. It shows where some later token of the reply would be another one, which is the same in a free run, whose first
changed token is the same. Swapping two rows whole, keys with values after they were turned, changes nothing for any model and
is no fault here. Letters: S streams, T positions of the cache, Q decode rows, q and k heads, d head_dim, H hidden.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.errors import BoundError
from harness.fabricate.numerics import FLOAT32, Floats
from harness.fabricate.shape import EMBEDDING, LM_HEAD
from harness.fabricate.teacher import Teacher
from harness.fabricate.transformer import (
    cast,
    feed_forward_inner,
    heads,
    linear,
    merge_heads,
    project_heads,
    rms_norm,
    rotate,
    softmax,
)
from harness.records.fixture import Stream

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Fault(enum.StrEnum):
    """What is wrong with the row of one position."""

    DROP = "drop"  # it is not there
    DOUBLE = "double"  # it counts twice
    SWAP = "swap"  # it holds what the next one should, and the next one what it should; each key turned for its place
    SHIFT = "shift"  # its key is turned for the next position
    SHIFT_ALL = "shiftall"  # so are those of all rows behind it, a query's own too
    STALE = "stale"  # it holds what another token left there: the request before, or a rejected draft
    KEPT = "kept"  # a rejected draft's row stays beside it; replies only


class HistoryCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many pairs of a fault and a position change a later token of some stream; those that do not are listed."""

    pairs: int
    share: float
    by_fault: dict[str, float]
    unseen: dict[str, list[int]]  # fault -> positions
    single_stream: dict[str, float]  # fault -> the share that one stream by itself shows, on average


@dataclass(frozen=True, slots=True)
class _Rows:
    """Keys before they are turned, and values, of one layer."""

    keys: Floats  # [..., T, k, d]
    values: Floats  # [..., T, k, d]


class Cache:
    """A target with the clean rows of its streams, on which rows are spoilt."""

    def __init__(self, teacher: Teacher) -> None:
        self.shape = teacher.shape
        self.weights = cast(teacher.weights, FLOAT32)
        self.prompt_length = teacher.script.prompts.shape[1]
        self.ids, self.replies = teacher.script.inputs, teacher.script.replies
        self.head = self.weights[LM_HEAD][: self.shape.vocab]
        self.clean, final = self._filled()
        self.others = self._stale(final)

    def visible(self, fault: Fault, stream: int, positions: Ids) -> Flags:
        """Return for each position [n] whether the fault there changes a token of the stream's reply after the first."""
        x = np.repeat(self.weights[EMBEDDING][self.ids[stream, self.prompt_length :]][None], len(positions), axis=0)
        for layer in range(self.shape.layers):
            x = x + self._attended(fault, stream, positions, layer, x)
            x = x + self._fed_forward(layer, x)
        says = (rms_norm(x, self.weights["model.norm.weight"], self.shape.rms_norm_eps) @ self.head.T).argmax(axis=-1)
        return np.asarray((says != self.replies[stream, 1:]).any(axis=-1))

    def _attended(self, fault: Fault, stream: int, positions: Ids, layer: int, x: Floats) -> Floats:
        """Attend from decode rows [n, Q, H], each of the n copies with its own row spoilt."""
        rows = self._rows(layer, self._normed(layer, x))
        start, total = self.prompt_length, self.ids.shape[1]
        prompt = self.clean[layer]
        keys, values = (
            np.concatenate([np.broadcast_to(old[stream, :start], (len(x), start, *old.shape[2:])), new], axis=1)
            for old, new in ((prompt.keys, rows.keys), (prompt.values, rows.values))
        )
        places = np.broadcast_to(np.arange(total), (len(x), total)).copy()
        extra = np.zeros((len(x), total))
        spoilt = _spoil(fault, keys, values, places, extra, positions, self._other(stream, positions, layer))
        turned = self._turn(spoilt.keys, places)
        right = self._turn(keys, np.broadcast_to(np.arange(total), places.shape))
        query = self._query(layer, self._normed(layer, x), np.arange(start, total))
        scale = np.asarray(1 / np.sqrt(self.shape.head_dim), x.dtype)
        clean_scores = query @ np.swapaxes(self._shared(right), -1, -2) * scale
        bad_scores = query @ np.swapaxes(self._shared(turned), -1, -2) * scale + extra[:, None, None].astype(x.dtype)
        ahead = np.arange(total) > np.arange(start, total)[:, None]  # [Q, T]
        acts = np.arange(start, total)[:, None] > _last_spoilt(fault, positions)[:, None, None]  # [n, Q, 1]
        scores = np.where(ahead, -np.inf, np.where(acts[:, None], bad_scores, clean_scores)).astype(x.dtype)
        if fault is Fault.KEPT:
            return self._with_kept(layer, stream, positions, query, scores, values, acts)
        shares = softmax(scores)
        mixed = np.where(acts[:, None], shares @ self._shared(spoilt.values), shares @ self._shared(values))
        return self._projected(layer, mixed)

    def _with_kept(
        self, layer: int, stream: int, positions: Ids, query: Floats, scores: Floats, values: Floats, acts: Flags
    ) -> Floats:
        """Attend with one row more, which stands at the position of the row that it was rejected for."""
        other = self._other(stream, positions, layer)
        key = self._shared(self._turn(other.keys[:, None], positions[:, None]))  # [n, q, 1, d]
        own = query @ np.swapaxes(key, -1, -2) / np.asarray(np.sqrt(self.shape.head_dim), query.dtype)
        own = np.where(acts[:, None], own, -np.inf).astype(query.dtype)
        shares = softmax(np.concatenate([scores, own], axis=-1))
        return self._projected(layer, shares @ self._shared(np.concatenate([values, other.values[:, None]], axis=1)))

    def _other(self, stream: int, positions: Ids, layer: int) -> _Rows:
        """Return what another token would have left at each position: the request before in the prompt, else a rejected draft."""
        in_prompt = (positions < self.prompt_length)[:, None, None]
        before, rejected = self.clean[layer], self.others[layer]
        neighbour = (stream + 1) % len(self.ids)
        return _Rows(
            np.where(in_prompt, before.keys[neighbour, positions], rejected.keys[stream, positions]),
            np.where(in_prompt, before.values[neighbour, positions], rejected.values[stream, positions]),
        )

    def _filled(self) -> tuple[list[_Rows], Floats]:
        """Return the clean rows of every layer [S, T, k, d], and the scores [S, T, V]."""
        x = self.weights[EMBEDDING][self.ids]
        clean = []
        for layer in range(self.shape.layers):
            clean.append(self._rows(layer, self._normed(layer, x)))
            x = x + self._causal(layer, x, clean[-1])
            x = x + self._fed_forward(layer, x)
        return clean, rms_norm(x, self.weights["model.norm.weight"], self.shape.rms_norm_eps) @ self.head.T

    def _stale(self, scores: Floats) -> list[_Rows]:
        """Return the rows [S, T, k, d] that the next best token would leave at each position, after the same tokens."""
        own = np.concatenate([self.ids[:, 1:], self.replies[:, -1:]], axis=1)
        lost = scores.copy()
        np.put_along_axis(lost, own[..., None], -np.inf, axis=-1)
        tokens = np.concatenate([self.ids[:, :1], lost[:, :-1].argmax(axis=-1)], axis=1)
        x = self.weights[EMBEDDING][tokens]
        others = []
        for layer, clean in enumerate(self.clean):
            others.append(self._rows(layer, self._normed(layer, x)))
            x = x + self._causal(layer, x, clean, others[-1])
            x = x + self._fed_forward(layer, x)
        return others

    def _causal(self, layer: int, x: Floats, rows: _Rows, own: _Rows | None = None) -> Floats:
        """Attend from every position [S, T, H] to the rows before it, and to its own, which may be another's."""
        total = x.shape[1]
        places = np.broadcast_to(np.arange(total), x.shape[:2])
        query = self._query(layer, self._normed(layer, x), np.arange(total))
        scale = np.asarray(1 / np.sqrt(self.shape.head_dim), x.dtype)
        scores = query @ np.swapaxes(self._shared(self._turn(rows.keys, places)), -1, -2) * scale
        mine = self._shared(self._turn((own or rows).keys, places))
        diagonal = (query * mine).sum(axis=-1) * scale
        at = np.arange(total)
        scores[..., at, at] = diagonal
        shares = softmax(np.where(at > at[:, None], np.asarray(-np.inf, x.dtype), scores))
        difference = self._shared((own or rows).values) - self._shared(rows.values)
        return self._projected(layer, shares @ self._shared(rows.values) + shares[..., at, at][..., None] * difference)

    def _normed(self, layer: int, x: Floats) -> Floats:
        return rms_norm(x, self.weights[f"model.layers.{layer}.input_layernorm.weight"], self.shape.rms_norm_eps)

    def _rows(self, layer: int, normed: Floats) -> _Rows:
        name = f"model.layers.{layer}.self_attn."
        keys = heads(linear(normed, self.weights[f"{name}k_proj.weight"]), self.shape.head_dim)
        keys = rms_norm(keys, self.weights[f"{name}k_norm.weight"], self.shape.rms_norm_eps)
        values = heads(linear(normed, self.weights[f"{name}v_proj.weight"]), self.shape.head_dim)
        return _Rows(np.swapaxes(keys, -2, -3), np.swapaxes(values, -2, -3))

    def _query(self, layer: int, normed: Floats, positions: Ids) -> Floats:
        name = f"model.layers.{layer}.self_attn.q"
        return project_heads(self.weights, name, normed, positions, self.shape.rope_theta, self.shape.rms_norm_eps)

    def _turn(self, keys: Floats, places: Ids) -> Floats:
        """Turn keys [..., T, k, d] for their places [..., T]."""
        return np.swapaxes(rotate(np.swapaxes(keys, -2, -3), places[..., None, :], self.shape.rope_theta), -2, -3)

    def _shared(self, rows: Floats) -> Floats:
        """Return [..., T, k, d] by query head, [..., q, T, d]."""
        return np.repeat(np.swapaxes(rows, -2, -3), self.shape.heads // self.shape.kv_heads, axis=-3)

    def _projected(self, layer: int, mixed: Floats) -> Floats:
        return linear(merge_heads(mixed), self.weights[f"model.layers.{layer}.self_attn.o_proj.weight"])

    def _fed_forward(self, layer: int, x: Floats) -> Floats:
        prefix = f"model.layers.{layer}."
        normed = rms_norm(x, self.weights[f"{prefix}post_attention_layernorm.weight"], self.shape.rms_norm_eps)
        return linear(feed_forward_inner(self.weights, prefix, normed), self.weights[f"{prefix}mlp.down_proj.weight"])


def _spoil(fault: Fault, keys: Floats, values: Floats, places: Ids, extra: Floats, positions: Ids, other: _Rows) -> _Rows:
    """Return copies of rows [n, T, k, d] with one row each spoilt; `places` and `extra` (of scores) [n, T] are changed."""
    keys, values = keys.copy(), values.copy()
    at = np.arange(len(positions))
    if fault is Fault.DROP:
        extra[at, positions] = -np.inf
    elif fault is Fault.DOUBLE:
        extra[at, positions] = np.log(2)
    elif fault is Fault.SWAP:
        for rows in (keys, values):
            rows[at, positions], rows[at, positions + 1] = rows[at, positions + 1], rows[at, positions].copy()
    elif fault is Fault.SHIFT:
        places[at, positions] += 1
    elif fault is Fault.SHIFT_ALL:
        places += np.arange(places.shape[1]) >= positions[:, None]
    elif fault is Fault.STALE:
        keys[at, positions], values[at, positions] = other.keys, other.values
    return _Rows(keys, values)


def _last_spoilt(fault: Fault, positions: Ids) -> Ids:
    """Return the position behind which queries see the fault."""
    return positions + 1 if fault is Fault.SWAP else positions


def positions_of(fault: Fault, prompt_length: int, total: int) -> Ids:
    """Return the positions at which a fault is planted: those of rows that a later query reads."""
    first = prompt_length if fault is Fault.KEPT else 0
    return np.arange(first, total - 2 if fault is Fault.SWAP else total - 1)


def certify_history(teacher: Teacher, streams: Sequence[Stream], bound: float) -> HistoryCertificate:
    """Plant every fault at every position of every stream. Raises BoundError where too few show over all streams."""
    cache = Cache(teacher)
    planted: dict[Fault, tuple[Ids, Flags]] = {}
    for fault in Fault:
        positions = positions_of(fault, cache.prompt_length, cache.ids.shape[1])
        planted[fault] = positions, np.array([cache.visible(fault, number, positions) for number in range(len(streams))])
    shown = {fault: shows.any(axis=0) for fault, (_, shows) in planted.items()}
    everything = np.concatenate(list(shown.values()))
    by_fault = {fault.value: float(shows.mean()) for fault, shows in shown.items()}
    share = float(everything.mean())
    if share < bound:
        shares = ", ".join(f"{fault} {one:.3f}" for fault, one in by_fault.items())
        raise BoundError(
            f"container: {share:.4f} of the faults in its history show ({shares}), want {bound}; lower head.rival_gap or "
            "raise head.rivals"
        )
    return HistoryCertificate(
        pairs=len(everything),
        share=share,
        by_fault=by_fault,
        unseen={fault.value: planted[fault][0][~shows].tolist() for fault, shows in shown.items() if not shows.all()},
        single_stream={fault.value: float(shows.mean()) for fault, (_, shows) in planted.items()},
    )
