"""The bands within which logprobs of one state agree on subjects whose rows depend on how many rows share a pass.

Measured on llama.cpp's server. In float32 a row computed alone and within a batch differ by 1e-5 at most; with its defaults (flash
attention, F16 caches) 960 scores moved by 1.4e-3 in the median and 6.3e-3 at most, and were off float64 by up to 1.1e-2. A row read at
the wrong place is off by 1e-1 and more. It knows no law.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SCORE_BAND = 1e-4  # nats, of a subject that computes in float32
EXACT_BAND = 1e-4  # nats, of float32 beside float64: measured up to 6e-6 here and 2e-5 on llama.cpp
COARSE_BAND = 5e-2  # nats, of one that is not certified: 16 bits or fewer somewhere on the way


def agree(want: Any, got: Any, band: float = SCORE_BAND) -> bool:
    """Whether two values are equal but for numbers that are within the band of each other; order counts, except in objects.

    Of two tables of a row's best scores, a token that one alone shows must be as low as the other's last: they may change places there.
    """
    if _is_number(want) and _is_number(got):
        return bool(abs(want - got) <= band)
    if isinstance(want, Mapping) and isinstance(got, Mapping):
        if want.keys() == got.keys():
            return all(agree(want[key], got[key], band) for key in want)
        return len(want) == len(got) and _shows(want, got, band) and _shows(got, want, band)
    if _is_list(want) and _is_list(got):
        return len(want) == len(got) and all(agree(left, right, band) for left, right in zip(want, got, strict=True))
    return bool(want == got)


def band_of(*, is_certified: bool) -> float:
    """Return the band of a subject."""
    return SCORE_BAND if is_certified else COARSE_BAND


def near_float64(want: float, got: float, *, is_certified: bool) -> bool:
    """Whether a subject's logprob is that of a float64 forward, as far as its own precision goes."""
    return abs(want - got) <= (EXACT_BAND if is_certified else COARSE_BAND)


def _shows(table: Mapping[str, Any], scores: Mapping[str, Any], band: float) -> bool:
    """Whether a table shows these scores, but for those that are as low as its last."""
    if not all(map(_is_number, (*table.values(), *scores.values()))):
        return False
    last = min(table.values())
    return all(abs(score - table[key]) <= band if key in table else score <= last + band for key, score in scores.items())


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
