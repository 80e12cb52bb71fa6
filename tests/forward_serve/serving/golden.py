"""The golden container unpacked, and random draft packs for it, written byte by byte."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = Path(__file__).parents[2] / "golden" / "q4nx" / "tiny-qwen3"
HIDDEN, VOCAB = 256, 256
HEADS, KEY_HEADS, HEAD_DIM, INTERMEDIATE = 2, 1, 64, 128


def unpack_container(directory: Path) -> Path:
    """Write the golden container to `directory` and return it."""
    shutil.copytree(GOLDEN, directory)
    packed = directory / "model.q4nx.gz"
    (directory / "model.q4nx").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    return directory


def write_pack(directory: Path, seed: int, block_size: int = 6, **changes: Any) -> Path:
    """Write a one-layer pack of random weights that fits the golden container and return its directory."""
    config = {
        "architectures": ["DFlashDraftModel"],
        "block_size": block_size,
        "dflash_config": {"mask_token_id": 250, "target_layer_ids": [0]},
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "model_type": "qwen3",
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": KEY_HEADS,
        "num_target_layers": 2,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "vocab_size": VOCAB,
        **changes,
    }
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "model.safetensors").write_bytes(safetensors_bytes(dict(tensors(seed))))
    return directory


def tensors(seed: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield every tensor of such a pack by name."""
    rng = np.random.default_rng(seed)
    queries, keys, layer = HEADS * HEAD_DIM, KEY_HEADS * HEAD_DIM, "layers.0"
    norms = {
        "hidden_norm": HIDDEN,
        "norm": HIDDEN,
        f"{layer}.input_layernorm": HIDDEN,
        f"{layer}.post_attention_layernorm": HIDDEN,
        f"{layer}.self_attn.q_norm": HEAD_DIM,
        f"{layer}.self_attn.k_norm": HEAD_DIM,
    }
    linears = {
        "fc": (HIDDEN, HIDDEN),
        f"{layer}.self_attn.q_proj": (queries, HIDDEN),
        f"{layer}.self_attn.k_proj": (keys, HIDDEN),
        f"{layer}.self_attn.v_proj": (keys, HIDDEN),
        f"{layer}.self_attn.o_proj": (HIDDEN, queries),
        f"{layer}.mlp.gate_proj": (INTERMEDIATE, HIDDEN),
        f"{layer}.mlp.up_proj": (INTERMEDIATE, HIDDEN),
        f"{layer}.mlp.down_proj": (HIDDEN, INTERMEDIATE),
    }
    for name, size in norms.items():
        yield f"{name}.weight", rng.uniform(0.6, 1.4, size).astype(np.float32)
    for name, shape in linears.items():
        yield f"{name}.weight", (rng.standard_normal(shape) / np.sqrt(shape[1])).astype(np.float32)


def safetensors_bytes(values: dict[str, NDArray[np.float32]]) -> bytes:
    """Return a safetensors file of these values, cut to bf16."""
    header: dict[str, Any] = {}
    data = b""
    for name, value in values.items():
        part = (value.view(np.uint32) >> 16).astype("<u2").tobytes()
        header[name] = {"dtype": "BF16", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + data
