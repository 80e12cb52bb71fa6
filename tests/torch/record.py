"""Writes the golden vectors: packs and a target of random weights, and what the published package did with them.

python -m tests.torch.record tests/golden/dflash
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tests.forward_serve.decoding.dflash.conftest import CONFIG, SECOND, changed, random_tensors, safetensors_bytes
from tests.forward_serve.decoding.dflash.session import NUM_TARGET_LAYERS
from tests.forward_serve.decoding.dflash.variants import KERNEL_OF_THREE, SCALED, SLIDING, SLIDING_THEN_FULL
from tests.torch.published import by_package

CASES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "first-full": {},
        "first-sliding-then-full": SLIDING_THEN_FULL,
        "second-sliding": {**SECOND, **SLIDING, "sliding_window": 9},
        "second-kernel-of-three-scaled": {**SECOND, **KERNEL_OF_THREE, **SCALED, "dflash_config.selector_top_k": 8},
    }
)
TARGET: Mapping[str, Any] = MappingProxyType(
    {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "head_dim": 6,
        "hidden_act": "silu",
        "hidden_size": CONFIG["hidden_size"],
        "intermediate_size": 24,
        "max_position_embeddings": 512,
        "model_type": "qwen3",
        "num_attention_heads": 4,
        "num_hidden_layers": NUM_TARGET_LAYERS,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6,
        "rope_theta": 2e4,
        "tie_word_embeddings": False,
        "vocab_size": CONFIG["vocab_size"],
    }
)


def write(directory: Path, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """Write config.json and model.safetensors."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(dict(config), indent=1, sort_keys=True) + "\n")
    (directory / "model.safetensors").write_bytes(safetensors_bytes(tensors))


def target_tensors(seed: int) -> dict[str, Any]:
    """The tensors of the target: its layers are named and shaped as those of a draft pack."""
    config = {**CONFIG, **TARGET}
    layers = {name: tensor for name, tensor in random_tensors(config, seed).items() if name.startswith("layers.")}
    rng = np.random.default_rng(seed + 1)
    table = (config["vocab_size"], config["hidden_size"])
    others = {
        "model.embed_tokens.weight": rng.standard_normal(table),
        "model.norm.weight": rng.uniform(0.6, 1.4, table[1]),
        "lm_head.weight": rng.standard_normal(table),
    }
    widened = {name: value.astype(np.float32) for name, value in others.items()}
    exact = {name: (value.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, value in widened.items()}
    return {f"model.{name}": tensor for name, tensor in layers.items()} | exact


def record(directory: Path) -> None:
    """Write target, packs and rounds."""
    write(directory / "target", TARGET, target_tensors(seed=1))
    for seed, (name, changes) in enumerate(CASES.items()):
        config = changed(CONFIG, changes)
        write(directory / name, config, random_tensors(config, seed))
        by_package(directory / name, directory / "target").save(directory / name)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
