"""The dimensions of a draft pack of either generation, with the names and logical shapes of all its tensors.

It does not know how a tensor is stored (pack.py) nor what is in it (draft_trunk.py, readout.py). Dimensions are checked when
they are built, and against the target by `check_against`.
"""

from __future__ import annotations

import msgspec

from harness.fabricate.shape import ModelShape, Shapes, matrix_shapes, norm_shapes, require_heads

CONVS = ("attention_conv", "mlp_conv")
PREDECESSORS = "candidate_selector.predecessor_codebook"
SUCCESSORS = "candidate_selector.successor_codebook"
GATE = "candidate_selector.hidden_projection.weight"


class Generation2(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What generation 2 adds: convolutions around each sublayer, a selector behind the block. Names as in config.json."""

    conv_kernel_size: int = 2
    conv_group_size: int = 32
    selector_rank: int = 8
    selector_top_k: int = 16

    def __post_init__(self) -> None:
        if min(self.conv_kernel_size, self.conv_group_size, self.selector_rank) < 1:
            raise ValueError("conv_kernel_size, conv_group_size and selector_rank are at least 1")
        if self.selector_top_k < 2:
            raise ValueError(f"selector_top_k={self.selector_top_k}: one candidate leaves nothing to select; use 2 or more")

    def tensors(self, layers: int, hidden: int, vocab: int) -> Shapes:
        """Return name -> shape of the tensors that generation 1 does not have; `vocab` counts padded rows."""
        sides_and_taps = 2 * self.conv_kernel_size
        shapes: Shapes = {}
        for prefix in (f"layers.{layer}.{conv}." for layer in range(layers) for conv in CONVS):
            shapes[f"{prefix}base_kernel"] = (2, self.conv_kernel_size, hidden)
            shapes[f"{prefix}kernel_projection.weight"] = (sides_and_taps * (hidden // self.conv_group_size), hidden)
        shapes[PREDECESSORS] = shapes[SUCCESSORS] = (vocab, self.selector_rank)
        shapes[GATE] = (self.selector_rank, hidden)
        return shapes


class DraftShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A DFlash draft trunk. Hidden width and vocabulary are the target's; everything else is the pack's own."""

    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    taps: tuple[int, ...]
    block_size: int  # slots of one block, the anchor included
    mask_token_id: int
    rope_theta: int = 1_000_000
    rms_norm_eps: float = 1e-6
    window: int | None = None  # of the layers that slide; None = no layer does
    full_layers: tuple[int, ...] = ()  # layers that do not slide though there is a window
    generation_2: Generation2 | None = None
    output_multiplier: float = 1.0
    final_logit_softcapping: float | None = None
    input_embedding_scale: float = 1.0

    def __post_init__(self) -> None:
        require_heads(self.heads, self.kv_heads, self.head_dim)
        if self.layers < 1:
            raise ValueError(f"layers={self.layers}: a draft trunk has at least one")
        if self.block_size < 2:
            raise ValueError(f"block_size={self.block_size}: a block holds the anchor and a draft; use 2 or more")
        if not self.taps:
            raise ValueError("taps=[]: a draft trunk reads at least one layer of the target")
        if self.window is not None and self.window < self.block_size:
            raise ValueError(f"window={self.window} is below block_size={self.block_size}; engines disagree there, use more")
        if not all(0 <= layer < self.layers for layer in self.full_layers):
            raise ValueError(f"full_layers={list(self.full_layers)}: a layer lies in 0..{self.layers - 1}")
        if min(self.output_multiplier, self.input_embedding_scale, self.final_logit_softcapping or 1.0) <= 0:
            raise ValueError("output_multiplier, input_embedding_scale and final_logit_softcapping are above 0")

    @property
    def num_drafts(self) -> int:
        """Drafts of one full block."""
        return self.block_size - 1

    @property
    def last_down(self) -> str:
        """The one tensor that is fitted."""
        return f"layers.{self.layers - 1}.mlp.down_proj.weight"

    def window_of(self, layer: int) -> int | None:
        """Return the window of a layer, None where it sees everything."""
        return None if layer in self.full_layers else self.window

    def is_causal(self, layer: int) -> bool:
        """Whether slots of a layer see backwards only: generation 1 says nothing, so that a layer which slides does."""
        return self.generation_2 is None and self.window_of(layer) is not None

    def tensors(self, model: ModelShape) -> Shapes:
        """Return name -> shape of every tensor of the pack, over this target."""
        hidden = model.hidden
        shapes: Shapes = {
            "fc.weight": (hidden, len(self.taps) * hidden),
            "hidden_norm.weight": (hidden,),
            "norm.weight": (hidden,),
        }
        query, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        for layer in range(self.layers):
            prefix = f"layers.{layer}."
            shapes |= norm_shapes(prefix, hidden, self.head_dim)
            shapes |= matrix_shapes(prefix, hidden, self.intermediate, query, kv)
        if self.generation_2 is not None:
            shapes |= self.generation_2.tensors(self.layers, hidden, model.padded_vocab)
        return shapes

    def check_against(self, model: ModelShape) -> None:
        """Raise ValueError when this trunk cannot read that target."""
        last = model.layers - 2
        if not all(0 <= tap <= last for tap in self.taps):
            raise ValueError(f"taps={list(self.taps)}: a tap lies in 0..{last} (engines disagree on the last layer)")
        if not 0 <= self.mask_token_id < model.padded_vocab:  # published packs take a row that no id owns
            raise ValueError(f"mask_token_id={self.mask_token_id} is outside 0..{model.padded_vocab - 1}")
        if self.generation_2 is not None and model.hidden % self.generation_2.conv_group_size:
            raise ValueError(f"conv_group_size={self.generation_2.conv_group_size} does not divide hidden={model.hidden}")
        if self.generation_2 is not None and self.generation_2.selector_top_k >= model.vocab:
            raise ValueError(f"selector_top_k={self.generation_2.selector_top_k} cuts nothing of {model.vocab} ids; use less")
