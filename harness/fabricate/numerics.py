"""How numbers are rounded: exact, float32, and bf16 as devices do it. It does not know what is computed with them.

A `Numerics` is handed to a forward, which rounds the input of every product with `activation` and the residual stream
after every addition with `residual`. A device rounds both sides of a product: see `DEVICE`. The certificate compares forwards
that differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]  # float64 or float32, as the Numerics says
Rounding = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class Numerics:
    """One way to compute: the dtype of every array, and where it is rounded further."""

    name: str
    dtype: type[np.floating[Any]]
    activation: Rounding
    residual: Rounding
    both_sides: bool = False  # weights and shares of attention are rounded too, queries once they are scaled
    drafts_on_host: bool = False  # a drafter beside the target reads its rounded taps, and computes in float32

    def weight(self, values: Floats) -> Floats:
        """Return a weight as products read it."""
        return self.activation(values) if self.both_sides else values

    @property
    def of_drafter(self) -> Numerics:
        """How a drafter computes beside a target that computes like this."""
        return FLOAT32 if self.drafts_on_host else self


def keep(values: Floats) -> Floats:
    """Return the values as they are."""
    return values


def to_bf16(values: Floats) -> Floats:
    """Round to the nearest bf16, ties to even; shape and dtype stay."""
    return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(values.dtype)


def bf16_bytes(values: Floats) -> bytes:
    """Return the values as little-endian bf16, nearest even, row-major."""
    return np.ascontiguousarray(values, np.float32).astype(ml_dtypes.bfloat16).tobytes()


def bf16_values(content: bytes) -> NDArray[np.float64]:
    """Return little-endian bf16 bytes as a flat float64 array."""
    return np.frombuffer(content, ml_dtypes.bfloat16).astype(np.float64)


def stochastic_bf16(rng: np.random.Generator) -> Rounding:
    """Return a rounding that goes up or down with a chance in proportion to the distance, drawn from `rng`."""

    def rounding(values: Floats) -> Floats:
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        dither = rng.integers(0, 1 << 16, bits.shape, np.uint16)
        rounded: NDArray[np.uint32] = (bits + dither) & np.uint32(0xFFFF0000)
        return rounded.view(np.float32).astype(values.dtype)

    return rounding


EXACT = Numerics("float64", np.float64, keep, keep)
FLOAT32 = Numerics("float32", np.float32, keep, keep)
BF16 = Numerics("bf16", np.float32, to_bf16, keep)  # inputs of each product, q, k, v and the final hidden state
HARSH = Numerics("bf16 residual", np.float32, to_bf16, to_bf16)  # the residual stream too
# The device of the engine's specification: every input of every product in bf16. It sums in float32, in an order that is its own:
# sums in float64 lie between all orders, and are the same on every machine.
DEVICE = Numerics("bf16 device", np.float64, to_bf16, keep, both_sides=True, drafts_on_host=True)


def noise_sample(seed: int) -> Numerics:
    """Return one seeded sample of stochastic bf16 rounding: a new object per forward, since it draws as it goes."""
    return Numerics("stochastic bf16", np.float32, stochastic_bf16(np.random.default_rng([seed, 0xB16])), keep)
