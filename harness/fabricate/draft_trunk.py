"""Random, seeded draft trunks of either generation: all of a pack but the one tensor that is fitted. It knows no target.

A generation 2 trunk mixes the slots of a block, and its convolutions and selector are as dynamic as random numbers make them;
only the last convolution's fixed part is one number for each group, which is what keeps the fit linear (readout.py).
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.draft_shape import GATE, PREDECESSORS, SUCCESSORS, DraftShape, Generation2
from harness.fabricate.numerics import to_bf16
from harness.fabricate.shape import ModelShape
from harness.fabricate.trunk import TrunkDials, random_matrix, random_vector

Tensors = dict[str, NDArray[np.float64]]


class DynamicsDials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How random convolutions and a random selector are scaled."""

    conv_delta: float = 0.2  # deviation of the dynamic part of a coefficient; the fixed one of the own slot is 0.6 .. 1.2
    successors: float = 0.3  # deviation of the successor codebook: how much the selector has to say
    selector_gate: float = 1.0  # deviation of the gate at hidden rows of rms 1

    def __post_init__(self) -> None:
        if min(self.conv_delta, self.successors, self.selector_gate) < 0:
            raise ValueError("deviations are 0 or more")


def random_draft(shape: DraftShape, model: ModelShape, dials: TrunkDials, more: DynamicsDials, seed: int) -> Tensors:
    """Return every tensor of a pack, exact in bf16; the last down_proj is there to be replaced."""
    rng = np.random.default_rng([seed, 2])
    make = {1: random_vector, 2: random_matrix}
    first = {name: size for name, size in shape.tensors(model).items() if name not in _second(shape, model)}
    tensors = {name: make[len(size)](rng, name, size, dials) for name, size in first.items()}
    if shape.generation_2 is not None:
        tensors |= _random_second(shape, shape.generation_2, model, more, np.random.default_rng([seed, 6]))
    return {name: to_bf16(tensor).astype(np.float64) for name, tensor in tensors.items()}


def _second(shape: DraftShape, model: ModelShape) -> dict[str, tuple[int, ...]]:
    if shape.generation_2 is None:
        return {}
    return shape.generation_2.tensors(shape.layers, model.hidden, model.padded_vocab)


def _random_second(
    shape: DraftShape, sizes: Generation2, model: ModelShape, dials: DynamicsDials, rng: np.random.Generator
) -> Tensors:
    tensors: Tensors = {}
    for name, size in _second(shape, model).items():
        if name.endswith("base_kernel"):
            is_last = name == f"layers.{shape.layers - 1}.mlp_conv.base_kernel"
            tensors[name] = _kernel(rng, sizes, model.hidden, output_by_group=is_last)
        elif name.endswith("kernel_projection.weight"):
            tensors[name] = rng.standard_normal(size) * (dials.conv_delta / np.sqrt(model.hidden))
    tensors[PREDECESSORS] = rng.choice([-1.0, 1.0], (model.padded_vocab, sizes.selector_rank))
    tensors[SUCCESSORS] = rng.standard_normal((model.padded_vocab, sizes.selector_rank)) * dials.successors
    tensors[GATE] = rng.standard_normal((sizes.selector_rank, model.hidden)) * (dials.selector_gate / np.sqrt(model.hidden))
    return tensors


def _kernel(rng: np.random.Generator, sizes: Generation2, hidden: int, *, output_by_group: bool) -> NDArray[np.float64]:
    """Return the fixed part [2, K, H]: the own slot strong, those before it half as strong and of either sign."""
    kernel = rng.uniform(0.6, 1.2, (2, sizes.conv_kernel_size, hidden))
    kernel[:, 1:] *= rng.choice([-0.5, 0.5], kernel[:, 1:].shape)
    if output_by_group:
        kernel[1] = np.repeat(kernel[1, :, :: sizes.conv_group_size], sizes.conv_group_size, axis=1)
    return kernel


def identity_second(shape: DraftShape, model: ModelShape, dials: DynamicsDials, seed: int) -> Tensors:
    """Return the tensors with which generation 2 drafts exactly as generation 1 does, whatever the rest of the selector holds."""
    assert shape.generation_2 is not None
    tensors = _random_second(shape, shape.generation_2, model, dials, np.random.default_rng([seed, 6]))
    for name, tensor in tensors.items():
        if name.endswith(("base_kernel", "kernel_projection.weight", SUCCESSORS)):
            tensor[:] = 0
        if name.endswith("base_kernel"):
            tensor[:, 0] = 1
    return {name: to_bf16(tensor).astype(np.float64) for name, tensor in tensors.items()}
