"""The certified model as a Hugging Face folder: float32 safetensors and a config.json that transformers reads.

Embedding and head are cut to the tokenizer's 256 ids, as in the GGUF twin. The tokenizer's files are the container's own. It does
not know how an engine runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.numpy import save

from harness.fabricate.decoded import decoded, shape_of

WEIGHTS_FILE = "model.safetensors"
_CONTAINERS_ONLY = ("addr_qk", "addr_kv", "addr_l_begin_mha", "addr_l_end_mha", "addr_kk", "flm_version")


def weights_bytes(container: Path, config: Mapping[str, Any]) -> bytes:
    """Return model.safetensors of the container in a directory; names and shapes are those of Qwen3ForCausalLM."""
    content = save(dict(decoded(container, shape_of(config))), metadata={"format": "pt"})
    return bytes(content)


def hf_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return config.json of the folder: the container's, in float32 and with the vocabulary that the weights have."""
    kept = {name: value for name, value in config.items() if name not in _CONTAINERS_ONLY}
    return {**kept, "vocab_size": shape_of(config).vocab, "torch_dtype": "float32"}
