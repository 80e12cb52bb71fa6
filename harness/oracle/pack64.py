"""A DFlash pack of either generation as float64 weights, with its config resolved. It does not know what is computed with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import FileFormatError
from harness.oracle.container64 import Config, read_config
from harness.oracle.tensors64 import Array, TensorFile, read_tensor_file

GENERATIONS = {"DFlashDraftModel": 1, "DFlash2DraftModel": 2}
SLIDING = "sliding_attention"
DEFAULT_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class Convolution64:
    """The grouped dynamic convolution around one sublayer; side 0 wraps its input, side 1 its output."""

    base: Array  # [2, taps, H]
    projection: Array  # [2 * taps * groups, H]


@dataclass(frozen=True, slots=True)
class DraftLayer64:
    """One draft layer. Matrices are [out, in]."""

    input_norm: Array
    q: Array
    k: Array
    v: Array
    q_norm: Array
    k_norm: Array
    o: Array
    post_norm: Array
    gate: Array
    up: Array
    down: Array
    is_causal: bool
    window: int | None  # positions that a slot sees on either side, its own included
    attention_conv: Convolution64 | None = None
    mlp_conv: Convolution64 | None = None


@dataclass(frozen=True, slots=True)
class Selector64:
    """What chooses among the best candidates of a slot by the token before it."""

    predecessors: Array  # [V, r]
    successors: Array  # [V, r]
    projection: Array  # [r, H]
    top_k: int


@dataclass(frozen=True, slots=True)
class Pack64:
    """Everything of a pack that a draft needs."""

    block_size: int  # slots, the anchor's included
    mask_token: int
    taps: tuple[int, ...]  # target layers, in the order of their concatenation
    num_heads: int
    num_kv_heads: int
    eps: float
    theta: float
    multiplier: float
    softcap: float | None
    embedding_scale: float
    fc: Array  # [H, T * H]
    hidden_norm: Array
    norm: Array
    layers: tuple[DraftLayer64, ...]
    selector: Selector64 | None


def read_pack(directory: Path) -> Pack64:
    """Read a pack's directory. Raises FileFormatError where a file is not as the format's page says, or asks for more."""
    config = read_config(directory / "config.json")
    inner = Config(directory / "config.json", config["dflash_config"])
    generation = _generation(config, directory)
    file = read_tensor_file(directory / "model.safetensors")
    hidden, eps = config["hidden_size"], config["rms_norm_eps"]
    taps = tuple(inner["target_layer_ids"])
    cap = _either(config, inner, "final_logit_softcapping", None)
    layers = range(config["num_hidden_layers"])
    return Pack64(
        block_size=_either(config, inner, "block_size", DEFAULT_BLOCK_SIZE),
        mask_token=_either(config, inner, "mask_token_id", None),
        taps=taps,
        num_heads=config["num_attention_heads"],
        num_kv_heads=config["num_key_value_heads"],
        eps=eps,
        theta=_theta(config),
        multiplier=_either(config, inner, "output_multiplier", 1.0),
        softcap=cap if cap is not None and cap > 0 else None,
        embedding_scale=_either(config, inner, "input_embedding_scale", 1.0),
        fc=file.bf16("fc.weight", hidden, len(taps) * hidden),
        hidden_norm=file.bf16("hidden_norm.weight", hidden),
        norm=file.bf16("norm.weight", hidden),
        layers=tuple(_layer(file, config, inner, number, generation) for number in layers),
        selector=_selector(file, config, inner) if generation == 2 else None,
    )


def _generation(config: Mapping[str, Any], directory: Path) -> int:
    named = config["architectures"][0]
    if named not in GENERATIONS:
        raise FileFormatError(f"{directory}/config.json: architectures {named}; the oracle knows {', '.join(GENERATIONS)}")
    if config.get("attention_bias") or config.get("rope_scaling"):
        raise FileFormatError(f"{directory}/config.json: attention_bias or rope_scaling is set; the oracle knows neither")
    return GENERATIONS[named]


def _either(config: Mapping[str, Any], inner: Mapping[str, Any], key: str, default: Any) -> Any:
    """Return a key of dflash_config, else of the top level, else a default."""
    for source in (inner, config):
        if source.get(key) is not None:
            return source[key]
    return default


def _theta(config: Mapping[str, Any]) -> float:
    """Return the base of RoPE in either spelling."""
    nested = config.get("rope_parameters") or {}
    return float(nested["rope_theta"] if "rope_theta" in nested else config["rope_theta"])


def _layer(file: TensorFile, config: Mapping[str, Any], inner: Mapping[str, Any], number: int, generation: int) -> DraftLayer64:
    hidden, width, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q_rows, kv_rows = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    kinds = config.get("layer_types")
    is_sliding = kinds is not None and kinds[number] == SLIDING
    causal = _either(config, inner, "is_causal", None)
    at = f"layers.{number}."
    return DraftLayer64(
        input_norm=file.bf16(f"{at}input_layernorm.weight", hidden),
        q=file.bf16(f"{at}self_attn.q_proj.weight", q_rows, hidden),
        k=file.bf16(f"{at}self_attn.k_proj.weight", kv_rows, hidden),
        v=file.bf16(f"{at}self_attn.v_proj.weight", kv_rows, hidden),
        q_norm=file.bf16(f"{at}self_attn.q_norm.weight", head_dim),
        k_norm=file.bf16(f"{at}self_attn.k_norm.weight", head_dim),
        o=file.bf16(f"{at}self_attn.o_proj.weight", hidden, q_rows),
        post_norm=file.bf16(f"{at}post_attention_layernorm.weight", hidden),
        gate=file.bf16(f"{at}mlp.gate_proj.weight", width, hidden),
        up=file.bf16(f"{at}mlp.up_proj.weight", width, hidden),
        down=file.bf16(f"{at}mlp.down_proj.weight", hidden, width),
        is_causal=is_sliding if causal is None else bool(causal),
        window=config["sliding_window"] if is_sliding else None,
        attention_conv=_convolution(file, f"{at}attention_conv", hidden, inner) if generation == 2 else None,
        mlp_conv=_convolution(file, f"{at}mlp_conv", hidden, inner) if generation == 2 else None,
    )


def _convolution(file: TensorFile, at: str, hidden: int, inner: Mapping[str, Any]) -> Convolution64:
    taps = inner.get("conv_kernel_size", 2)
    groups = hidden // inner.get("conv_group_size", 16)
    return Convolution64(
        base=file.bf16(f"{at}.base_kernel", 2, taps, hidden),
        projection=file.bf16(f"{at}.kernel_projection.weight", 2 * taps * groups, hidden),
    )


def _selector(file: TensorFile, config: Mapping[str, Any], inner: Mapping[str, Any]) -> Selector64:
    vocab, rank = config["vocab_size"], inner.get("selector_rank", 256)
    return Selector64(
        predecessors=file.bf16("candidate_selector.predecessor_codebook", vocab, rank),
        successors=file.bf16("candidate_selector.successor_codebook", vocab, rank),
        projection=file.bf16("candidate_selector.hidden_projection.weight", rank, config["hidden_size"]),
        top_k=inner.get("selector_top_k", 16),
    )
