"""The golden data of both formats, laid out for the oracle's tests, and small random packs for the golden container."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.oracle.tensors64 import Array

GOLDEN = Path(__file__).parents[2] / "golden"
Q4NX, DFLASH = GOLDEN / "q4nx", GOLDEN / "dflash"
HELLO = (39, 68, 75, 75, 78)


def unpacked(directory: Path) -> Path:
    """Write the golden container into a directory that is not there yet and return it."""
    shutil.copytree(Q4NX / "tiny-qwen3", directory)
    packed = directory / "model.q4nx.gz"
    (directory / "model.q4nx").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    return directory


def edit_config(directory: Path, file: str = "config.json", **changes: Any) -> None:
    """Change keys of a JSON file; None takes a key out."""
    path = directory / file
    config = {**json.loads(path.read_bytes()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def write_pack(directory: Path, seed: int, **changes: Any) -> Path:
    """Write a generation-1 pack of one layer and random weights that fits the golden container, and return it."""
    hidden, heads, kv_heads, head_dim, inner = 256, 4, 2, 16, 32
    config = {
        "architectures": ["DFlashDraftModel"],
        "block_size": 5,
        "dflash_config": {"mask_token_id": 250, "target_layer_ids": [0]},
        "hidden_size": hidden,
        "intermediate_size": inner,
        "head_dim": head_dim,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e4,
        "vocab_size": 256,
        **changes,
    }
    shapes = {
        "fc": (hidden, hidden),
        "hidden_norm": (hidden,),
        "norm": (hidden,),
        "layers.0.input_layernorm": (hidden,),
        "layers.0.post_attention_layernorm": (hidden,),
        "layers.0.self_attn.q_proj": (heads * head_dim, hidden),
        "layers.0.self_attn.k_proj": (kv_heads * head_dim, hidden),
        "layers.0.self_attn.v_proj": (kv_heads * head_dim, hidden),
        "layers.0.self_attn.o_proj": (hidden, heads * head_dim),
        "layers.0.self_attn.q_norm": (head_dim,),
        "layers.0.self_attn.k_norm": (head_dim,),
        "layers.0.mlp.gate_proj": (inner, hidden),
        "layers.0.mlp.up_proj": (inner, hidden),
        "layers.0.mlp.down_proj": (hidden, inner),
    }
    rng = np.random.default_rng(seed)
    tensors = {f"{name}.weight": rng.normal(0, 0.3, shape) + (len(shape) == 1) for name, shape in shapes.items()}
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "model.safetensors").write_bytes(safetensors(tensors))
    return directory


def safetensors(tensors: Mapping[str, Array]) -> bytes:
    """Return a safetensors file of bf16 tensors: the upper halves of float32."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        halves: NDArray[np.uint16] = (np.ascontiguousarray(tensor, np.float32).view(np.uint32) >> 16).astype("<u2")
        header[name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": [len(data), len(data) + halves.nbytes]}
        data += halves.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 8)
    return len(text).to_bytes(8, "little") + text + data
