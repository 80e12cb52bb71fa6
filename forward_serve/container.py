"""A Q4NX directory to float32 weights and what the tokenizer files say. Knows no forward and no tokenizer library.

Letters: V vocabulary, H hidden, I intermediate, NH query heads, NKV key heads, D head_dim. Every refusal names file, tensor or
key, value and rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forward_serve import bf16
from forward_serve.envelope import StoredTensor, read_envelope
from forward_serve.errors import Refusal
from forward_serve.files import MODEL_FILE, parse_object, read_file, read_object
from forward_serve.q4_1 import Q4_1_BYTES, TILE_COLUMNS, TILE_ROWS, decode_q4_1, tile_grid

Rows = NDArray[np.float32]  # [out, in] for a weight

MAX_POSITIONS = 1 << 20
END_TOKENS = ("<|endoftext|>", "<|im_end|>")
OTHER_CHUNKS = {8704: "Q8 (its code order is not in the file)", 4736: "Q4_K"}
SERVED_SETTINGS: Mapping[str, tuple[Any, ...]] = {  # keys of config.json that change the forward; a null is the first
    "model_type": ("qwen3",),
    "hidden_act": ("silu", None),
    "attention_bias": (False, None),
    "use_sliding_window": (False, None),
    "rope_scaling": (None, {"rope_type": "default"}, {"type": "default"}),
}


@dataclass(frozen=True, slots=True)
class Qwen3Config:
    """The keys of config.json that the forward needs, under their own names, checked."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < math.inf:
                raise Refusal(f"config.json: {field.name}={value}: a positive, finite number is wanted")
        if self.max_position_embeddings > MAX_POSITIONS:
            raise Refusal(
                f"config.json: max_position_embeddings={self.max_position_embeddings}: at most {MAX_POSITIONS} positions are "
                "served, as keys and values of all of them are held"
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise Refusal(
                f"config.json: num_key_value_heads={self.num_key_value_heads} does not divide "
                f"num_attention_heads={self.num_attention_heads}"
            )
        if self.head_dim % 2:
            raise Refusal(f"config.json: head_dim={self.head_dim} is odd: rotary embedding pairs two halves")


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """One layer, float32, [out, in]; q, k, v and gate, up stand on top of each other in this order."""

    input_norm: Rows  # [H]
    post_attention_norm: Rows  # [H]
    query_norm: Rows  # [D]
    key_norm: Rows  # [D]
    qkv: Rows  # [(NH + 2 NKV) * D, H]
    output: Rows  # [H, NH * D]
    gate_up: Rows  # [2 I, H]
    down: Rows  # [H, I]


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A model's weights, float32."""

    embedding: Rows  # [V, H]
    final_norm: Rows  # [H]
    lm_head: Rows  # [V, H]
    layers: tuple[LayerWeights, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Container:
    """An opened container."""

    directory: Path
    config: Qwen3Config
    weights: Weights
    tokenizer_json: str
    tokenizer_config: Mapping[str, Any]
    chat_template: str | None
    end_ids: frozenset[int]
    vocab_bound: int  # 1 + the highest id of the tokenizer; logits from here to V are padding


def open_container(path: Path) -> Container:
    """Open a container directory, or a .q4nx file whose directory holds the rest. Each file is opened once.

    Raises Refusal for a path, file, key or tensor that is missing, damaged or not served.
    """
    model_path = path / MODEL_FILE if path.is_dir() else path
    if model_path.suffix != ".q4nx":
        raise Refusal(f"{path}: neither a directory nor a .q4nx file; a container is a directory with {MODEL_FILE} in it")
    directory = model_path.parent
    raw_config = read_object(directory / "config.json")
    config = _read_config(directory / "config.json", raw_config)
    tokenizer_json = read_file(directory / "tokenizer.json")
    token_ids = _token_ids(directory / "tokenizer.json", tokenizer_json, config)
    tokenizer_config = read_object(directory / "tokenizer_config.json", optional=True)
    sources = {
        "tokenizer_config.json": tokenizer_config,
        "generation_config.json": read_object(directory / "generation_config.json", optional=True),
        "config.json": raw_config,
    }
    return Container(
        directory=directory,
        config=config,
        weights=_read_weights(model_path, config),
        tokenizer_json=tokenizer_json.decode(),
        tokenizer_config=tokenizer_config,
        chat_template=_chat_template(directory / "tokenizer_config.json", tokenizer_config),
        end_ids=_eos_ids(directory, sources, config) | {token_ids[name] for name in END_TOKENS if name in token_ids},
        vocab_bound=1 + max(token_ids.values()),
    )


class _Tensors:
    """The tensors of one file, handed out by name; those nobody asked for are refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left = read_envelope(path)

    def _take(self, name: str, dtype: str) -> StoredTensor:
        tensor = self._left.pop(name, None)
        if tensor is None:
            raise Refusal(f"{self._path}: tensor {name} is missing; config.json asks for it")
        if tensor.dtype != dtype:
            raise Refusal(f"{tensor.place}: dtype {tensor.dtype}; {dtype} is wanted")
        return tensor

    def plain(self, name: str, **dims: int) -> Rows:
        """Take a BF16 tensor whose shape is `dims`, named as in config.json."""
        tensor = self._take(name, "BF16")
        if tensor.shape != tuple(dims.values()):
            asked = ", ".join(f"{key}={size}" for key, size in dims.items())
            raise Refusal(f"{tensor.place}: shape {list(tensor.shape)}, but config.json says {asked}")
        values = bf16.widened(np.frombuffer(tensor.data, np.uint8)).reshape(tensor.shape)
        if not np.isfinite(values).all():
            raise Refusal(f"{tensor.place}: {values[~np.isfinite(values)][0]} among its values; they must be finite")
        return values

    def packed(self, name: str, num_rows: int, num_columns: int) -> Rows:
        """Take an I8 tensor of q4_1 tiles and decode it to [num_rows, num_columns]."""
        tensor = self._take(name, "I8")
        *grid, chunk = tensor.shape or (1,)
        if chunk != Q4_1_BYTES:
            kind = OTHER_CHUNKS.get(chunk, "of no known kind")
            raise Refusal(f"{tensor.place}: chunks of {chunk} bytes are {kind}; only q4_1 ({Q4_1_BYTES}) is served")
        want = tile_grid(num_rows, num_columns)
        if num_rows % TILE_ROWS or tuple(grid) not in {want, (math.prod(want),)}:
            raise Refusal(
                f"{tensor.place}: {grid} tiles, but by config.json the weight is {num_rows} x {num_columns}: "
                f"{math.prod(want)} tiles of {TILE_ROWS} x {TILE_COLUMNS}, its rows a multiple of {TILE_ROWS}"
            )
        tiles = np.frombuffer(tensor.data, np.uint8).reshape(-1, Q4_1_BYTES)
        return decode_q4_1(tiles, num_rows, num_columns, tensor.place)

    def end(self) -> None:
        """Refuse what is left."""
        if self._left:
            raise Refusal(f"{self._path}: tensor {min(self._left)} has no place in the model that config.json describes")


def _read_weights(path: Path, config: Qwen3Config) -> Weights:
    tensors = _Tensors(path)
    sizes = {"vocab_size": config.vocab_size, "hidden_size": config.hidden_size}
    weights = Weights(
        embedding=tensors.plain("model.embed_tokens.weight", **sizes),
        final_norm=tensors.plain("model.norm.weight", hidden_size=config.hidden_size),
        lm_head=tensors.packed("lm_head.weight", config.vocab_size, config.hidden_size),
        layers=tuple(_read_layer(tensors, f"model.layers.{index}", config) for index in range(config.num_hidden_layers)),
    )
    tensors.end()
    return weights


def _read_layer(tensors: _Tensors, prefix: str, config: Qwen3Config) -> LayerWeights:
    hidden, inner = config.hidden_size, config.intermediate_size
    query_size = config.num_attention_heads * config.head_dim
    key_size = config.num_key_value_heads * config.head_dim
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    sizes = {"q_proj": query_size, "k_proj": key_size, "v_proj": key_size}
    qkv = [tensors.packed(f"{attention}.{name}.weight", size, hidden) for name, size in sizes.items()]
    gate_up = [tensors.packed(f"{mlp}.{name}.weight", inner, hidden) for name in ("gate_proj", "up_proj")]
    return LayerWeights(
        input_norm=tensors.plain(f"{prefix}.input_layernorm.weight", hidden_size=hidden),
        post_attention_norm=tensors.plain(f"{prefix}.post_attention_layernorm.weight", hidden_size=hidden),
        query_norm=tensors.plain(f"{attention}.q_norm.weight", head_dim=config.head_dim),
        key_norm=tensors.plain(f"{attention}.k_norm.weight", head_dim=config.head_dim),
        qkv=np.concatenate(qkv),
        output=tensors.packed(f"{attention}.o_proj.weight", hidden, query_size),
        gate_up=np.concatenate(gate_up),
        down=tensors.packed(f"{mlp}.down_proj.weight", hidden, inner),
    )


def _read_config(path: Path, raw: Mapping[str, Any]) -> Qwen3Config:
    """Check config.json: duplicate keys (the last counts), nulls (absent) and a wrong `architectures` are tolerated."""
    for key, served in SERVED_SETTINGS.items():
        if raw.get(key) not in served:
            raise Refusal(f"{path}: {key}={raw.get(key)!r}; only {served[0]!r} is served")
    for field in fields(Qwen3Config):
        value = raw.get(field.name)
        if isinstance(value, bool) or not isinstance(value, int if field.type == "int" else int | float):
            raise Refusal(f"{path}: {field.name}={value!r}; the key is required, its value a positive {field.type}")
    return Qwen3Config(**{field.name: raw[field.name] for field in fields(Qwen3Config)})


def _token_ids(path: Path, text: bytes, config: Qwen3Config) -> dict[str, int]:
    """Return every token of tokenizer.json, added ones included, with its id."""
    tokenizer = parse_object(path, text)
    try:
        ids = {**tokenizer["model"]["vocab"], **{token["content"]: token["id"] for token in tokenizer["added_tokens"]}}
    except (KeyError, TypeError) as error:
        raise Refusal(f"{path}: {error}; model.vocab must map token to id, added_tokens list content and id") from None
    if not ids:
        raise Refusal(f"{path}: no token in model.vocab or added_tokens; a tokenizer has one or more")
    for token, token_id in ids.items():
        _check_id(f"{path}: token {token!r}", token_id, config)
    return ids


def _eos_ids(directory: Path, sources: Mapping[str, Mapping[str, Any]], config: Qwen3Config) -> frozenset[int]:
    """Return eos_token_id, one or a list, of the first source that has it; empty where none does."""
    for name, source in sources.items():
        eos = source.get("eos_token_id")
        if eos is not None:
            eos_ids = eos if isinstance(eos, list) else [eos]
            for token_id in eos_ids:
                _check_id(f"{directory / name}: eos_token_id", token_id, config)
            return frozenset(eos_ids)
    return frozenset()


def _check_id(place: str, token_id: object, config: Qwen3Config) -> None:
    if type(token_id) is not int or not 0 <= token_id < config.vocab_size:
        raise Refusal(f"{place}: id {token_id!r}; a whole number below config.json's vocab_size={config.vocab_size} is wanted")


def _chat_template(path: Path, tokenizer_config: Mapping[str, Any]) -> str | None:
    """Return the chat template, of several named ones the one named default; None where there is none."""
    template = tokenizer_config.get("chat_template")
    if isinstance(template, list) and all(isinstance(named, dict) for named in template):
        template = next((named.get("template") for named in template if named.get("name") == "default"), None)
    if not isinstance(template, str | None):
        raise Refusal(f"{path}: chat_template is a {type(template).__name__}; text or a list of name and template is wanted")
    return template
