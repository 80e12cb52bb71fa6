"""A DFlash pack, opened and decoded once: its weights in the order in which they multiply fastest. Knows no forward.

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
from forward_serve.decoding.dflash.generation2 import Generation2
from forward_serve.decoding.dflash.layout import tensor_shapes
from forward_serve.decoding.dflash.selector import CandidateSelector
from forward_serve.decoding.dflash.tensors import read_tensors

Weight = NDArray[np.float32]  # a norm's [n], or [in, out] so that y = x W: the order in which few rows multiply fastest
Tensors = dict[str, NDArray[np.float32]]
PANEL = 256  # inner features at most: products of a block with more leave BLAS's path for small matrices, and take twice as long


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One draft layer; what is multiplied by the same input is one weight, its outputs side by side."""

    input_norm: Weight  # [H]
    qkv: Weight  # [H, (hq + 2 hk) d]
    query_norm: Weight  # [d]
    key_norm: Weight  # [d]
    output: Weight  # [hq d, H]
    mlp_norm: Weight  # [H]
    gate_up: Weight  # [2, I / w, H, w]: gate and up, each in panels of w inner features
    down: Weight  # [I / w, w, H]
    attention_conv: BlockConv | None  # None = generation 1
    mlp_conv: BlockConv | None  # None = generation 1


@dataclass(frozen=True, slots=True)
class DFlashPack:
    """The configuration and the weights of one pack."""

    config: DFlashConfig
    fc: Weight  # [T H, H]
    hidden_norm: Weight  # [H]
    norm: Weight  # [H]
    layers: tuple[LayerWeights, ...]
    selector: CandidateSelector | None  # None = generation 1

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
    tensors = read_tensors(directory / "model.safetensors", tensor_shapes(config))
    sizes = config.generation_2
    return DFlashPack(
        config=config,
        fc=_beside([tensors["fc.weight"]]),
        hidden_norm=tensors["hidden_norm.weight"],
        norm=tensors["norm.weight"],
        layers=tuple(_layer(tensors, f"layers.{index}", sizes) for index in range(config.num_hidden_layers)),
        selector=None if sizes is None else _selector(tensors, sizes),
    )


def _layer(tensors: Tensors, prefix: str, sizes: Generation2 | None) -> LayerWeights:
    def named(name: str) -> Weight:
        return tensors[f"{prefix}.{name}.weight"]

    return LayerWeights(
        input_norm=named("input_layernorm"),
        qkv=_beside([named("self_attn.q_proj"), named("self_attn.k_proj"), named("self_attn.v_proj")]),
        query_norm=named("self_attn.q_norm"),
        key_norm=named("self_attn.k_norm"),
        output=_beside([named("self_attn.o_proj")]),
        mlp_norm=named("post_attention_layernorm"),
        gate_up=np.ascontiguousarray([_panels(named(f"mlp.{name}_proj")).transpose(0, 2, 1) for name in ("gate", "up")]),
        down=_panels(named("mlp.down_proj").T),
        attention_conv=None if sizes is None else _conv(tensors, f"{prefix}.attention_conv", sizes),
        mlp_conv=None if sizes is None else _conv(tensors, f"{prefix}.mlp_conv", sizes),
    )


def _conv(tensors: Tensors, prefix: str, sizes: Generation2) -> BlockConv:
    kernels = tensors[f"{prefix}.base_kernel"].reshape(2, sizes.conv_kernel_size, -1, sizes.conv_group_size)
    return BlockConv(kernels, _beside([tensors[f"{prefix}.kernel_projection.weight"]]))


def _selector(tensors: Tensors, sizes: Generation2) -> CandidateSelector:
    return CandidateSelector(
        predecessors=tensors["candidate_selector.predecessor_codebook"],
        successors=tensors["candidate_selector.successor_codebook"],
        gate=_beside([tensors["candidate_selector.hidden_projection.weight"]]),
        top_k=sizes.selector_top_k,
    )


def _beside(stored: Sequence[Weight]) -> Weight:
    """Return stored weights, each [out, in], as one [in, outs]."""
    beside = np.empty((stored[0].shape[1], sum(map(len, stored))), np.float32)
    return np.concatenate([weight.T for weight in stored], axis=1, out=beside)


def _panels(weight: Weight) -> Weight:
    """Return a weight [I, H] as panels [I / w, w, H] of as many inner features as divide I, up to PANEL."""
    width = next(width for width in range(min(PANEL, len(weight)), 0, -1) if len(weight) % width == 0)
    if width < PANEL // 4:  # more calls than are worth it
        width = len(weight)
    return np.ascontiguousarray(weight).reshape(-1, width, weight.shape[1])
