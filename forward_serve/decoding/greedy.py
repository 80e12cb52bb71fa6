"""The one place where a token is chosen greedily. Knows nothing but rows of logits and the vocabulary bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def bounded_argmax(logits: NDArray[np.float32], vocab_bound: int) -> NDArray[np.intp]:
    """Return the id below `vocab_bound` with the largest logit, for each row of [..., V]; ties go to the lowest id.

    Rows of the head above the tokenizer's size are padding: whatever they hold, they are never chosen.
    """
    ids: NDArray[np.intp] = logits[..., :vocab_bound].argmax(axis=-1)
    return ids
