"""bfloat16 as float32 values: widened from bytes, and rounded to. Knows no file and no model.

A bfloat16 number is the upper half of a float32 one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def widened(raw: NDArray[np.uint8]) -> Floats:
    """Return the float32 values of little-endian bfloat16 bytes."""
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)


def rounded(values: Floats) -> Floats:
    """Return `values` rounded to the nearest bfloat16, ties to even, as float32; what overflows is infinite, a NaN stays one."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    nearest = bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))  # carries into the upper half from the middle on
    nearest &= np.uint32(0xFFFF0000)
    floats: Floats = nearest.view(np.float32)
    np.copyto(floats, np.float32(np.nan), where=np.isnan(values))
    return floats
