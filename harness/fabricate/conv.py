"""The grouped convolution over the slots of a block (generation 2). It does not know the sublayer that it is put around.

Letters: B slots, K taps (the slot itself and the K-1 before it), H hidden, G groups of neighbouring channels. A coefficient is
a fixed part of each channel and a dynamic part of each group, which the slot's own unmixed input gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.fabricate.draft_shape import Generation2
from harness.fabricate.numerics import Floats
from harness.fabricate.transformer import linear


@dataclass(frozen=True, slots=True)
class Mixing:
    """One side of a convolution at given slots."""

    base: Floats  # [K, H]
    deltas: Floats  # [..., B, K, G]

    def __call__(self, rows: Floats) -> Floats:
        """Return each slot [..., B, H] as a sum over taps of coefficient times the slot that far back; zero before slot 0."""
        taps, groups = self.deltas.shape[-2:]
        grouped = rows.reshape(*rows.shape[:-1], groups, -1)
        base = self.base.reshape(taps, groups, -1)
        mixed = np.zeros_like(grouped)
        slots = rows.shape[-2]
        for back in range(min(taps, slots)):
            coefficients = base[back] + self.deltas[..., back:, back, :, None]
            mixed[..., back:, :, :] += coefficients * grouped[..., : slots - back, :, :]
        return mixed.reshape(rows.shape)

    def group_coefficients(self) -> Floats:
        """Return the coefficients [..., B, K, G] of a convolution whose fixed part is the same all over a group."""
        taps, groups = self.deltas.shape[-2:]
        base = self.base.reshape(taps, groups, -1)
        assert np.all(base == base[..., :1]), "the fixed part varies inside a group"
        return np.asarray(base[..., 0] + self.deltas)


def mixings(weights: Mapping[str, NDArray[Any]], prefix: str, normed: Floats, sizes: Generation2) -> tuple[Mixing, Mixing]:
    """Return the convolutions of a sublayer's input and of its output, both from its unmixed normed input [..., B, H]."""
    base = weights[f"{prefix}base_kernel"]
    deltas = linear(normed, weights[f"{prefix}kernel_projection.weight"])
    deltas = deltas.reshape(*normed.shape[:-1], 2, sizes.conv_kernel_size, -1)
    return Mixing(base[0], deltas[..., 0, :, :]), Mixing(base[1], deltas[..., 1, :, :])
