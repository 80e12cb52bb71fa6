"""What a draft head needs around it: a target, a tap sink, and a base that writes to it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forward_serve.decoding.interfaces import Rows
from forward_serve.decoding.scripted import ScriptedBase, saying
from tests.forward_serve.decoding.dflash.session import NUM_TARGET_LAYERS, streams

BOUND = 28  # of 32 rows; the mask is a padded one


class Sink:
    """An append-only store of tap rows: the streams of the tapped layers, side by side."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._layers = config["dflash_config"]["target_layer_ids"]
        self._hidden_size = config["hidden_size"]
        self._stored: list[NDArray[np.float32]] = []

    def __len__(self) -> int:
        return len(self._stored)

    def clear(self) -> None:
        self._stored.clear()

    def truncate(self, num_rows: int) -> None:
        del self._stored[num_rows:]

    def run(self, tokens: Sequence[int]) -> None:
        """Append what the target leaves behind for these tokens."""
        self.append(streams(tokens, len(self), self._hidden_size))

    def append(self, layers: NDArray[np.float32]) -> None:
        """Append rows of [rows, target layers, H]."""
        self._stored += [row[self._layers].reshape(-1) for row in layers]

    def rows(self, start: int, stop: int) -> Rows:
        assert 0 <= start < stop <= len(self), f"rows {start} to {stop} of {len(self)}"
        return np.array(self._stored[start:stop])


class Target:
    """The part of a target that a draft head uses; its padded head rows are three times as long as the others."""

    def __init__(self, config: dict[str, Any]) -> None:
        rng = np.random.default_rng(11)
        shape = (config["vocab_size"], config["hidden_size"])
        self.config = SimpleNamespace(hidden_size=shape[1], vocab_size=shape[0], num_hidden_layers=NUM_TARGET_LAYERS)
        self.vocab_bound = BOUND
        self.table = rng.standard_normal(shape).astype(np.float32)
        self.lm_head = rng.standard_normal(shape).astype(np.float32)
        self.lm_head[BOUND:] *= 3
        self.embedded: list[list[int]] = []

    def embed(self, ids: Sequence[int]) -> Rows:
        self.embedded.append(list(ids))
        return self.table[list(ids)]

    def head(self, hidden: Rows) -> Rows:
        return hidden @ self.lm_head.T


class TappedBase(ScriptedBase):
    """A scripted base that writes a tap row for each row of each pass."""

    def __init__(self, prompt: list[int], reply: list[int], sink: Sink) -> None:
        super().__init__(saying(prompt, reply, 0), BOUND)
        self._sink = sink

    def forward(self, ids: Sequence[int]) -> Rows:
        self._sink.run(ids)
        return super().forward(ids)

    def truncate(self, num_positions: int) -> None:
        self._sink.truncate(max(0, len(self._sink) - (self.num_positions - num_positions)))
        super().truncate(num_positions)
