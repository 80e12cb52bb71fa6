"""Random, seeded trunks: a reservoir that the head is solved over. It does not know the head nor any stream.

Two dials make a random trunk remember: the norm weights of queries and keys sharpen attention, most of all on the fast
rotary pairs (so that one position of difference matters), and a strong o_proj lets attention weigh as much as the residual.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.fabricate.numerics import Floats, to_bf16
from harness.fabricate.q4nx import Q41, quantise
from harness.fabricate.shape import EMBEDDING, LM_HEAD, ModelShape


class TrunkDials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a random trunk is scaled. Gains multiply weights of deviation 1/sqrt(fan_in)."""

    embedding_deviation: float = 0.3
    score_gain: float = 2.0  # product of the q_norm and k_norm scales: the deviation of attention scores
    fast_gain: float = 2.5  # how much stronger the fast rotary pairs are, before the whole is brought back to rms 1
    fast_pairs: int = 16  # how many pairs are fast ones
    gate_gain: float = 1.0
    output_gain: float = 1.5  # of o_proj

    def __post_init__(self) -> None:
        if min(self.score_gain, self.fast_gain, self.embedding_deviation, self.gate_gain, self.output_gain) <= 0:
            raise ValueError("every gain and deviation of a trunk is above 0")
        if self.fast_pairs < 0:
            raise ValueError(f"fast_pairs={self.fast_pairs} is below 0")


def random_trunk(shape: ModelShape, dials: TrunkDials, seed: int) -> dict[str, Q41 | Floats]:
    """Return every tensor of a container but the head: matrices in q4_1, embedding and norms exact in bf16."""
    rng = np.random.default_rng([seed, 1])
    tensors: dict[str, Q41 | Floats] = {}
    for name, size in shape.vectors().items():
        tensors[name] = to_bf16(random_vector(rng, name, size, dials))
    for name, size in shape.matrices().items():
        if name != LM_HEAD:
            tensors[name] = quantise(random_matrix(rng, name, size, dials))
    return tensors


def random_matrix(rng: np.random.Generator, name: str, size: tuple[int, ...], dials: TrunkDials) -> NDArray[np.float64]:
    """Return a matrix [out, in] of deviation 1/sqrt(in) times the gain that its name asks for."""
    gain = {"o_proj": dials.output_gain, "gate_proj": dials.gate_gain}.get(name.split(".")[-2], 1.0)
    return np.asarray(rng.standard_normal(size) * (gain / np.sqrt(size[1])))


def random_vector(rng: np.random.Generator, name: str, size: tuple[int, ...], dials: TrunkDials) -> NDArray[np.float64]:
    """Return an embedding, or the weights of a norm; those of queries and keys carry the position profile."""
    if name == EMBEDDING:
        return rng.standard_normal(size) * dials.embedding_deviation
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        return rng.uniform(0.8, 1.2, size) * _position_profile(size[0], dials)
    return rng.uniform(0.6, 1.4, size)


def _position_profile(head_dim: int, dials: TrunkDials) -> NDArray[np.float64]:
    half = np.ones(head_dim // 2)
    half[: dials.fast_pairs] = dials.fast_gain
    profile = np.tile(half, 2)
    return np.asarray(np.sqrt(dials.score_gain / np.mean(profile**2)) * profile)
