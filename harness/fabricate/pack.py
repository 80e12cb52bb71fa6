"""The one writer of DFlash draft packs: config.json and model.safetensors. It does not know what a pack proposes.

The generations differ in the keys of the config and in the list of tensors (draft_shape.py). Layout: docs of the DFlash pack
format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate import envelope
from harness.fabricate.draft_shape import DraftShape, Generation2
from harness.fabricate.errors import FabricationError
from harness.fabricate.numerics import Floats, bf16_bytes, bf16_values
from harness.fabricate.shape import ModelShape, Shapes
from harness.fabricate.tokenizer import END_OF_TEXT, json_bytes
from harness.records.files import write_bytes

TENSORS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"


def pack_config(draft: DraftShape, model: ModelShape, eos: Sequence[int], context: int) -> dict[str, Any]:
    """Return the content of config.json, with the keys of published packs of the generation and in their spelling.

    Generation 1 has block_size and rope_theta at the top level and no is_causal: a layer that slides is causal. Generation 2 has
    block_size inside dflash_config, rope_theta inside rope_parameters, and is not causal.
    """
    own = _generation_1_keys(draft) if draft.generation_2 is None else _generation_2_keys(draft, draft.generation_2)
    kinds = ["full_attention" if draft.window_of(layer) is None else "sliding_attention" for layer in range(draft.layers)]
    config = {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": END_OF_TEXT,
        "dtype": "bfloat16",
        "eos_token_id": list(eos),
        "head_dim": draft.head_dim,
        "hidden_act": "silu",
        "hidden_size": model.hidden,
        "initializer_range": 0.02,
        "intermediate_size": draft.intermediate,
        "layer_types": kinds,
        "max_position_embeddings": context,
        "max_window_layers": draft.layers,
        "model_type": "qwen3",
        "num_attention_heads": draft.heads,
        "num_hidden_layers": draft.layers,
        "num_key_value_heads": draft.kv_heads,
        "num_target_layers": model.layers,
        "pad_token_id": END_OF_TEXT,
        "rms_norm_eps": draft.rms_norm_eps,
        "sliding_window": draft.window,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": draft.window is not None,
        "vocab_size": model.padded_vocab,
    }
    return dict(sorted((config | own).items()))


def _dflash_keys(draft: DraftShape) -> dict[str, Any]:
    keys: dict[str, Any] = {"mask_token_id": draft.mask_token_id, "target_layer_ids": list(draft.taps)}
    if draft.output_multiplier != 1:
        keys["output_multiplier"] = draft.output_multiplier
    if draft.final_logit_softcapping is not None:
        keys["final_logit_softcapping"] = draft.final_logit_softcapping
    if draft.input_embedding_scale != 1:
        keys["input_embedding_scale"] = draft.input_embedding_scale
    return keys


def _generation_1_keys(draft: DraftShape) -> dict[str, Any]:
    return {
        "architectures": ["DFlashDraftModel"],
        "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
        "block_size": draft.block_size,
        "dflash_config": _dflash_keys(draft),
        "rope_scaling": None,
        "rope_theta": draft.rope_theta,
        "transformers_version": "4.57.1",
    }


def _generation_2_keys(draft: DraftShape, sizes: Generation2) -> dict[str, Any]:
    return {
        "architectures": ["DFlash2DraftModel"],
        "dflash_config": {"block_size": draft.block_size, **_dflash_keys(draft), **msgspec.structs.asdict(sizes)},
        "is_causal": False,
        "rope_parameters": {"rope_theta": draft.rope_theta, "rope_type": "default"},
        "transformers_version": "5.15.0",
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
