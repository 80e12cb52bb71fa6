"""The band within which logprobs of one state agree on subjects whose rows depend on how many rows share a pass.

Measured on llama.cpp's server in float32: a row computed alone and within a batch differ by 1e-5 at most; a row read at the wrong place is
off by 1e-1 and more. It knows no law.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SCORE_BAND = 1e-4  # nats


def agree(want: Any, got: Any) -> bool:
    """Whether two values are equal but for numbers that are within the band of each other; order counts, except in objects."""
    if isinstance(want, float | int) and isinstance(got, float | int) and not isinstance(want, bool):
        return abs(want - got) <= SCORE_BAND
    if isinstance(want, Mapping) and isinstance(got, Mapping):
        return want.keys() == got.keys() and all(agree(want[key], got[key]) for key in want)
    if _is_list(want) and _is_list(got):
        return len(want) == len(got) and all(map(agree, want, got))
    return bool(want == got)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
