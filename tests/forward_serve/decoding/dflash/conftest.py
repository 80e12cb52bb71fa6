"""Tiny random draft packs, written here byte by byte: the tests share no code with the reader."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Tensors = dict[str, NDArray[np.float32]]

CONFIG: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
    "attention_bias": False,
    "attention_dropout": 0.0,
    "block_size": 6,
    "dflash_config": {"mask_token_id": 29, "target_layer_ids": [1, 0, 3]},
    "dtype": "bfloat16",
    "head_dim": 6,
    "hidden_act": "silu",
    "hidden_size": 16,
    "intermediate_size": 20,
    "max_position_embeddings": 512,
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "num_target_layers": 5,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 2e4,
    "sliding_window": None,
    "use_sliding_window": False,
    "vocab_size": 32,
}
# What turns CONFIG into the generation-2 configuration of the same trunk, in the spelling of published packs.
SECOND: dict[str, Any] = {
    "architectures": ["DFlash2DraftModel"],
    "auto_map": ...,
    "block_size": ...,
    "dflash_config.block_size": 6,
    "dflash_config.conv_group_size": 4,
    "dflash_config.conv_kernel_size": 2,
    "dflash_config.selector_rank": 5,
    "dflash_config.selector_top_k": 4,
    "is_causal": False,
    "rope_parameters": {"rope_theta": 2e4, "rope_type": "default"},
    "rope_scaling": ...,
    "rope_theta": ...,
}


def random_tensors(config: Mapping[str, Any], seed: int) -> Tensors:
    """Every tensor of a pack of this configuration: lively norms, bf16-exact values. Both generations share the trunk's."""
    rng = np.random.default_rng(seed)
    hidden, width, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    num_taps = len(config["dflash_config"]["target_layer_ids"])
    tensors: Tensors = {}

    def norm(name: str, size: int) -> None:
        tensors[name] = rng.uniform(0.6, 1.4, size).astype(np.float32)

    def linear(name: str, out: int, inputs: int) -> None:
        tensors[name] = (1.5 * rng.standard_normal((out, inputs)) / np.sqrt(inputs)).astype(np.float32)

    linear("fc.weight", hidden, num_taps * hidden)
    norm("hidden_norm.weight", hidden)
    norm("norm.weight", hidden)
    for layer in range(config["num_hidden_layers"]):
        norm(f"layers.{layer}.input_layernorm.weight", hidden)
        norm(f"layers.{layer}.post_attention_layernorm.weight", hidden)
        linear(f"layers.{layer}.self_attn.q_proj.weight", queries, hidden)
        linear(f"layers.{layer}.self_attn.k_proj.weight", keys, hidden)
        linear(f"layers.{layer}.self_attn.v_proj.weight", keys, hidden)
        linear(f"layers.{layer}.self_attn.o_proj.weight", hidden, queries)
        norm(f"layers.{layer}.self_attn.q_norm.weight", head_dim)
        norm(f"layers.{layer}.self_attn.k_norm.weight", head_dim)
        linear(f"layers.{layer}.mlp.gate_proj.weight", width, hidden)
        linear(f"layers.{layer}.mlp.up_proj.weight", width, hidden)
        linear(f"layers.{layer}.mlp.down_proj.weight", hidden, width)
    if config["architectures"] == ["DFlash2DraftModel"]:
        tensors |= second_tensors(config, rng)
    return {name: (tensor.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, tensor in tensors.items()}


def second_tensors(config: Mapping[str, Any], rng: np.random.Generator) -> Tensors:
    """What generation 2 adds, as large as the trunk's own."""
    inner, hidden, vocab = config["dflash_config"], config["hidden_size"], config["vocab_size"]
    taps, rank = inner["conv_kernel_size"], inner["selector_rank"]
    projection = (2 * taps * (hidden // inner["conv_group_size"]), hidden)
    tensors: Tensors = {}

    def normal(name: str, *shape: int, scale: float = 1.0) -> None:
        tensors[name] = (scale * rng.standard_normal(shape)).astype(np.float32)

    for layer in range(config["num_hidden_layers"]):
        for conv in ("attention_conv", "mlp_conv"):
            normal(f"layers.{layer}.{conv}.base_kernel", 2, taps, hidden)
            normal(f"layers.{layer}.{conv}.kernel_projection.weight", *projection, scale=hidden**-0.5)
    normal("candidate_selector.predecessor_codebook", vocab, rank)
    normal("candidate_selector.successor_codebook", vocab, rank)
    normal("candidate_selector.hidden_projection.weight", rank, hidden, scale=1.5 * hidden**-0.5)
    return tensors


def safetensors_bytes(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """A safetensors file: float32 tensors are stored as bf16, float64 ones as F64."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    offset = 0
    for name, tensor in tensors.items():
        is_bf16 = tensor.dtype == np.float32
        part = (tensor.view(np.uint32) >> 16).astype("<u2").tobytes() if is_bf16 else tensor.tobytes()
        header[name] = {
            "dtype": "BF16" if is_bf16 else "F64",
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(part)],
        }
        parts.append(part)
        offset += len(part)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + b"".join(parts)


def changed(config: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with these keys set ("dflash_config.x" goes inside), or dropped where the value is `...`."""
    result = {**config, "dflash_config": dict(config["dflash_config"])}
    for name, value in changes.items():
        inner, _, key = name.rpartition(".")
        part = result[inner] if inner else result
        if value is ...:
            part.pop(key, None)
        else:
            part[key] = value
    return result


@pytest.fixture
def write_pack(tmp_path: Path) -> Callable[..., tuple[Path, dict[str, Any], Tensors]]:
    """A writer: `write_pack(changes, seed, edit)` returns directory, configuration and tensors of a pack.

    `edit` changes the tensors before they are written.
    """

    def write(
        changes: Mapping[str, Any] | None = None, seed: int = 0, edit: Callable[[Any], None] | None = None
    ) -> tuple[Path, dict[str, Any], Tensors]:
        config = changed(CONFIG, changes or {})
        tensors = random_tensors(config, seed)
        if edit is not None:
            edit(tensors)
        (tmp_path / "config.json").write_text(json.dumps(config))
        (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(tensors))
        return tmp_path, config, tensors

    return write


@pytest.fixture
def write_config(tmp_path: Path) -> Callable[[Mapping[str, Any]], Path]:
    """A writer of config.json alone; returns its path."""

    def write(changes: Mapping[str, Any]) -> Path:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(changed(CONFIG, changes)))
        return path

    return write
