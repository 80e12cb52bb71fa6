"""The mixing of a block's slots before and after a sublayer (generation 2). Knows neither the sublayer nor the context.

Letters of shapes: B slots of a block, H hidden, K slots that one slot is mixed from (itself and the K - 1 right before it),
G groups of H / G neighbouring channels. Source: GroupedDynamicCausalConv of the DFlash reference (PyPI dflash 0.1.0, model.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forward_serve.decoding.interfaces import Rows

Kernel = NDArray[np.float32]  # [K, G, H / G]: fixed coefficients, tap 0 is the slot itself
Deltas = NDArray[np.float32]  # [B, K, G, 1]: what each slot adds to its own coefficients


@dataclass(frozen=True, slots=True)
class BlockConv:
    """The convolution around one sublayer: one kernel before it and one after it, both with deltas from its unmixed input."""

    kernels: NDArray[np.float32]  # [2, K, G, H / G]
    projection: NDArray[np.float32]  # [H, 2 K G]

    def prepare(self, rows: Rows) -> tuple[Rows, Deltas]:
        """Return the mixed input [B, H] and the deltas of the output."""
        deltas = (rows @ self.projection).reshape(len(rows), *self.kernels.shape[:3], 1)
        return mixed(rows, self.kernels[0], deltas[:, 0]), deltas[:, 1]

    def finish(self, rows: Rows, deltas: Deltas) -> Rows:
        """Return the mixed output [B, H]; the residual is added after it."""
        return mixed(rows, self.kernels[1], deltas)


def mixed(rows: Rows, kernel: Kernel, deltas: Deltas) -> Rows:
    """Return each slot as the sum over taps of (kernel + its own delta) * the slot that far back, [B, H].

    A block begins anew: what would lie before its first slot counts as zero.
    """
    num_slots = len(rows)
    grouped = rows.reshape(num_slots, *kernel.shape[1:])
    mix = np.zeros_like(grouped)
    for back in range(min(len(kernel), num_slots)):
        mix[back:] += (kernel[back] + deltas[back:, back]) * grouped[: num_slots - back]
    return mix.reshape(rows.shape)


def through(conv: BlockConv | None, rows: Rows, sublayer: Callable[[Rows], Rows]) -> Rows:
    """Run a sublayer on normed rows [B, H], inside its conv where the generation has one."""
    if conv is None:
        return sublayer(rows)
    mixed_rows, deltas = conv.prepare(rows)
    return conv.finish(sublayer(mixed_rows), deltas)
