"""The one writer of DFlash draft packs: config.json and model.safetensors. It does not know what a pack proposes.

`write_pack` holds for any generation; what differs between generations is the config (here: generation 1) and the list of
tensors (shape.py). Layout: docs of the DFlash pack format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.fabricate import envelope
from harness.fabricate.errors import FabricationError
from harness.fabricate.numerics import Floats, bf16_bytes, bf16_values
from harness.fabricate.shape import DraftShape, ModelShape, Shapes
from harness.fabricate.tokenizer import END_OF_TEXT, json_bytes
from harness.records.files import write_bytes

TENSORS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"


def generation_one_config(draft: DraftShape, model: ModelShape, eos: Sequence[int], context: int) -> dict[str, Any]:
    """Return the content of config.json of a generation 1 pack, with the keys of published packs.

    Generation 1 has block_size and rope_theta at the top level and no is_causal: full attention, not causal.
    """
    return {
        "architectures": ["DFlashDraftModel"],
        "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
        "attention_bias": False,
        "attention_dropout": 0.0,
        "block_size": draft.block_size,
        "bos_token_id": END_OF_TEXT,
        "dflash_config": {"mask_token_id": draft.mask_token_id, "target_layer_ids": list(draft.taps)},
        "dtype": "bfloat16",
        "eos_token_id": list(eos),
        "head_dim": draft.head_dim,
        "hidden_act": "silu",
        "hidden_size": model.hidden,
        "initializer_range": 0.02,
        "intermediate_size": draft.intermediate,
        "layer_types": ["full_attention"] * draft.layers,
        "max_position_embeddings": context,
        "max_window_layers": draft.layers,
        "model_type": "qwen3",
        "num_attention_heads": draft.heads,
        "num_hidden_layers": draft.layers,
        "num_key_value_heads": draft.kv_heads,
        "num_target_layers": model.layers,
        "pad_token_id": END_OF_TEXT,
        "rms_norm_eps": draft.rms_norm_eps,
        "rope_scaling": None,
        "rope_theta": draft.rope_theta,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "transformers_version": "4.57.1",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": model.padded_vocab,
    }


def write_pack(directory: Path, config: dict[str, Any], tensors: Mapping[str, Floats], shapes: Shapes) -> None:
    """Write a pack into a directory; every tensor in bf16. Raises FabricationError where tensors and shapes differ."""
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if found != shapes:
        odd = sorted(name for name in found.keys() | shapes.keys() if found.get(name) != shapes.get(name))
        raise FabricationError(f"{directory}: tensors {odd} are missing, unknown or misshapen")
    entries = {name: envelope.Entry("BF16", tensor.shape, bf16_bytes(tensor)) for name, tensor in tensors.items()}
    write_bytes(directory / TENSORS_FILE, envelope.encode(entries, {"format": "pt"}))
    write_bytes(directory / CONFIG_FILE, json_bytes(config))


def read_pack(directory: Path) -> dict[str, NDArray[np.float64]]:
    """Decode the tensors of a pack from its bytes."""
    entries = envelope.read(directory / TENSORS_FILE)
    return {name: bf16_values(entry.content).reshape(entry.shape) for name, entry in entries.items()}
