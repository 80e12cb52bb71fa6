"""A Q4NX container of the family qwen3 as float64 weights, with the facts of its files that decide where a reply ends.

It does not know what is computed with the weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import FileFormatError
from harness.oracle.tensors64 import Array, content_of, read_tensor_file
from harness.records.expectation import ModelFacts

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.q4nx"
ALWAYS_END = ("<|endoftext|>", "<|im_end|>")
END_SOURCES = ("tokenizer_config.json", "generation_config.json", CONFIG_FILE)  # the first that names one decides
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Layer64:
    """One decoder layer. Matrices are [out, in]."""

    input_norm: Array  # [H]
    q: Array  # [heads * D, H]
    k: Array  # [kv heads * D, H]
    v: Array
    q_norm: Array  # [D]
    k_norm: Array
    o: Array  # [H, heads * D]
    post_norm: Array
    gate: Array  # [I, H]
    up: Array
    down: Array  # [H, I]


@dataclass(frozen=True, slots=True)
class Container64:
    """Everything of a container that a forward needs."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    eps: float
    theta: float
    bound: int  # ids from here on have no token: they may never be chosen
    embedding: Array  # [V, H]
    layers: tuple[Layer64, ...]
    norm: Array  # [H]
    head: Array  # [V, H]


def read_facts(directory: Path) -> ModelFacts:
    """Read what a container's files say of its replies, and name its weights. Raises FileFormatError for a broken file."""
    config = read_config(directory / CONFIG_FILE)
    content = content_of(directory / WEIGHTS_FILE)
    return ModelFacts(
        weights=hashlib.sha256(content + _numbers_of(config)).hexdigest()[:_DIGITS],
        end_tokens=_end_tokens(directory, _vocabulary(directory)),
        context=int(config["max_position_embeddings"]),
    )


def read_num_rows(directory: Path) -> int:
    """Read how many ids a container has a row for. Raises FileFormatError for a broken file."""
    return int(read_config(directory / CONFIG_FILE)["vocab_size"])


def read_container(directory: Path) -> Container64:
    """Read a container's weights. Raises FileFormatError where a file is not as the format's page says."""
    config = read_config(directory / CONFIG_FILE)
    return _container(directory / WEIGHTS_FILE, config, bound=max(_vocabulary(directory).values()) + 1)


def read_config(path: Path) -> dict[str, Any]:
    """Read a JSON object; a key that is missing in it is an error that names the file. Raises FileFormatError."""
    try:
        return Config(path, json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path}: cannot be read ({error}); fabricate the recipe again") from error


class Config(dict[str, Any]):
    """A JSON object that knows its file."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, key: str) -> Any:
        raise FileFormatError(f"{self.path}: key {key} is missing; the oracle guesses no default for it")


def _container(path: Path, config: Mapping[str, Any], bound: int) -> Container64:
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head_dim = config["head_dim"]
    q_rows, kv_rows = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    file = read_tensor_file(path)

    def layer(number: int) -> Layer64:
        at = f"model.layers.{number}."
        return Layer64(
            input_norm=file.bf16(f"{at}input_layernorm.weight", hidden),
            q=file.q4_1(f"{at}self_attn.q_proj.weight", q_rows, hidden),
            k=file.q4_1(f"{at}self_attn.k_proj.weight", kv_rows, hidden),
            v=file.q4_1(f"{at}self_attn.v_proj.weight", kv_rows, hidden),
            q_norm=file.bf16(f"{at}self_attn.q_norm.weight", head_dim),
            k_norm=file.bf16(f"{at}self_attn.k_norm.weight", head_dim),
            o=file.q4_1(f"{at}self_attn.o_proj.weight", hidden, q_rows),
            post_norm=file.bf16(f"{at}post_attention_layernorm.weight", hidden),
            gate=file.q4_1(f"{at}mlp.gate_proj.weight", inner, hidden),
            up=file.q4_1(f"{at}mlp.up_proj.weight", inner, hidden),
            down=file.q4_1(f"{at}mlp.down_proj.weight", hidden, inner),
        )

    return Container64(
        num_heads=config["num_attention_heads"],
        num_kv_heads=config["num_key_value_heads"],
        head_dim=head_dim,
        eps=config["rms_norm_eps"],
        theta=config["rope_theta"],
        bound=bound,
        embedding=file.bf16("model.embed_tokens.weight", vocab, hidden),
        layers=tuple(layer(number) for number in range(config["num_hidden_layers"])),
        norm=file.bf16("model.norm.weight", hidden),
        head=file.q4_1("lm_head.weight", vocab, hidden),
    )


def _numbers_of(config: Mapping[str, Any]) -> bytes:
    """Return what a config changes in the forward: two containers of the same weights and other numbers are not the same."""
    names = ("rope_theta", "rms_norm_eps", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")
    return json.dumps([config[name] for name in names]).encode()


def _vocabulary(directory: Path) -> dict[str, int]:
    """Return every token of tokenizer.json with its id."""
    tokenizer = read_config(directory / "tokenizer.json")
    added = {token["content"]: token["id"] for token in tokenizer.get("added_tokens", [])}
    return {**tokenizer["model"]["vocab"], **added}


def _end_tokens(directory: Path, vocabulary: Mapping[str, int]) -> tuple[int, ...]:
    """Return the ids that end a reply: those of the first file that names any, and the two names that always do."""
    named: list[int] = []
    for name in END_SOURCES:
        path = directory / name
        said = read_config(path).get("eos_token_id") if path.is_file() else None
        if said is not None:
            named = [said] if isinstance(said, int) else list(said)
            break
    return tuple(dict.fromkeys((*named, *(vocabulary[name] for name in ALWAYS_END if name in vocabulary))))
