"""What a generation-2 pack says beyond generation 1: a convolution around each sublayer and a selector behind the block.

It knows keys and rules. What is computed with them stands in conv.py and selector.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from forward_serve.decoding.dflash.fields import Fields


@dataclass(frozen=True, slots=True)
class Generation2:
    """The four sizes of generation 2, in the words of config.json."""

    conv_kernel_size: int  # slots that one slot is mixed from: itself and the ones right before it
    conv_group_size: int  # neighbouring channels that share a coefficient; divides hidden_size
    selector_rank: int  # numbers that describe a token in a codebook
    selector_top_k: int  # candidates of one slot; at most vocab_size


def read_generation_2(specific: Fields, hidden_size: int, vocab_size: int) -> Generation2:
    """Read and check the four sizes; each is required. Raises Refusal by name."""
    sizes = Generation2(
        conv_kernel_size=specific.integer("conv_kernel_size", 1),
        conv_group_size=specific.integer("conv_group_size", 1),
        selector_rank=specific.integer("selector_rank", 1),
        selector_top_k=specific.integer("selector_top_k", 1),
    )
    if hidden_size % sizes.conv_group_size:
        raise specific.refusal("conv_group_size", f"does not divide hidden_size={hidden_size}", "correct the pack")
    if sizes.selector_top_k > vocab_size:
        raise specific.refusal("selector_top_k", f"is above vocab_size={vocab_size}", "correct the pack")
    return sizes
