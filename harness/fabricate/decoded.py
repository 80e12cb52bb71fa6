"""A container as other formats want it: its decoded weights in float32, without the rows that no id of the tokenizer owns.

Formats that know no padded vocabulary would let a padded row be chosen, so embedding and head are cut to the tokenizer's ids:
the twins are the certified model with its bound built in. It does not know any of those formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.fabricate.q4nx import FILE_NAME, read_container
from harness.fabricate.shape import EMBEDDING, LM_HEAD, ModelShape
from harness.fabricate.tokenizer import NUM_IDS

Weights32 = dict[str, NDArray[np.float32]]


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """Return the dimensions that a container's config.json states."""
    return ModelShape(
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"],
        vocab=NUM_IDS,
        padded_vocab=config["vocab_size"],
        rope_theta=config["rope_theta"],
        rms_norm_eps=config["rms_norm_eps"],
    )


def decoded(directory: Path, shape: ModelShape) -> Weights32:
    """Return every tensor of the container in a directory; q4_1 and bf16 values are exact in float32.

    Raises UsageError where the container's file is not as its shape says.
    """
    try:
        weights = read_container(directory, shape.vectors() | shape.matrices())
    except ValueError as error:
        raise UsageError(f"{directory / FILE_NAME}: {error}; only a sound container has twins in other formats") from error
    return {name: _bounded(name, tensor, shape).astype(np.float32) for name, tensor in weights.items()}


def _bounded(name: str, tensor: NDArray[np.float64], shape: ModelShape) -> NDArray[np.float64]:
    return tensor[: shape.vocab] if name in (EMBEDDING, LM_HEAD) else tensor
