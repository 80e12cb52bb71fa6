"""A DFlash pack, opened and decoded once. It knows the names and shapes of its tensors, not how a block is run.

Letters of shapes: H hidden, I intermediate, T tapped layers, d head_dim, hq and hk query and key/value heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forward_serve.decoding.dflash.config import DFlashConfig, TargetConfig, read_config
from forward_serve.decoding.dflash.conv import BlockConv
from forward_serve.decoding.dflash.tensors import Shape, read_tensors

Weight = NDArray[np.float32]  # a norm's [n], or [in, out] so that y = x W: the order in which few rows multiply fastest


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One draft layer; what is multiplied by the same input is one weight, its outputs side by side."""

    input_norm: Weight  # [H]
    qkv: Weight  # [H, (hq + 2 hk) d]
    query_norm: Weight  # [d]
    key_norm: Weight  # [d]
    output: Weight  # [hq d, H]
    mlp_norm: Weight  # [H]
    gate_up: Weight  # [H, 2 I]
    down: Weight  # [I, H]
    attention_conv: BlockConv | None = None  # generation 2
    mlp_conv: BlockConv | None = None  # generation 2


@dataclass(frozen=True, slots=True)
class DFlashPack:
    """The configuration and the weights of one pack."""

    config: DFlashConfig
    fc: Weight  # [T H, H]
    hidden_norm: Weight  # [H]
    norm: Weight  # [H]
    layers: tuple[LayerWeights, ...]

    @property
    def block_size(self) -> int:
        """Slots of one block, the anchor included; a round has at most one draft less."""
        return self.config.block_size

    def check_against(self, target: TargetConfig) -> None:
        """Raise Refusal where the pack was not made for a target of this shape."""
        self.config.check_against(target)


def open_pack(directory: Path) -> DFlashPack:
    """Read config.json and model.safetensors, each once. Raises Refusal by name for whatever this engine would not honour."""
    config = read_config(directory / "config.json")
    tensors = read_tensors(directory / "model.safetensors", _shapes(config))
    return DFlashPack(
        config=config,
        fc=_beside([tensors["fc.weight"]]),
        hidden_norm=tensors["hidden_norm.weight"],
        norm=tensors["norm.weight"],
        layers=tuple(_layer(tensors, index) for index in range(config.num_hidden_layers)),
    )


def _shapes(config: DFlashConfig) -> dict[str, Shape]:
    """The tensors of a generation-1 pack, by name: 11 for each layer and 3 more."""
    hidden = config.hidden_size
    num_taps = len(config.target_layer_ids)
    queries = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    of_layer: dict[str, Shape] = {
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "self_attn.q_norm": (config.head_dim,),
        "self_attn.k_norm": (config.head_dim,),
        "mlp.gate_proj": (config.intermediate_size, hidden),
        "mlp.up_proj": (config.intermediate_size, hidden),
        "mlp.down_proj": (hidden, config.intermediate_size),
    }
    shapes: dict[str, Shape] = {
        "fc.weight": (hidden, num_taps * hidden),
        "hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
    }
    for index in range(config.num_hidden_layers):
        shapes |= {f"layers.{index}.{name}.weight": shape for name, shape in of_layer.items()}
    return shapes


def _layer(tensors: dict[str, Weight], index: int) -> LayerWeights:
    def named(name: str) -> Weight:
        return tensors[f"layers.{index}.{name}.weight"]

    return LayerWeights(
        input_norm=named("input_layernorm"),
        qkv=_beside([named("self_attn.q_proj"), named("self_attn.k_proj"), named("self_attn.v_proj")]),
        query_norm=named("self_attn.q_norm"),
        key_norm=named("self_attn.k_norm"),
        output=_beside([named("self_attn.o_proj")]),
        mlp_norm=named("post_attention_layernorm"),
        gate_up=_beside([named("mlp.gate_proj"), named("mlp.up_proj")]),
        down=_beside([named("mlp.down_proj")]),
    )


def _beside(stored: Sequence[Weight]) -> Weight:
    """Return stored weights, each [out, in], as one [in, outs]."""
    return np.ascontiguousarray(np.concatenate(stored).T)
