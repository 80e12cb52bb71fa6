"""The dimensions of a model, with the names and logical shapes of all its tensors; those of packs are in draft_shape.py.

It does not know how a tensor is stored (q4nx.py) nor what is in it (trunk.py, head.py). Dimensions are checked when they are
built; as parts of a recipe they give errors that name the file and the key.
"""

from __future__ import annotations

import msgspec

Shapes = dict[str, tuple[int, ...]]
LM_HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"


class ModelShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dense qwen3 model. `vocab` ids belong to the tokenizer, rows up to `padded_vocab` to nobody."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    padded_vocab: int
    rope_theta: int = 1_000_000
    rms_norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        _require_multiples(256, hidden=self.hidden, intermediate=self.intermediate, query_width=self.heads * self.head_dim)
        _require_multiples(32, kv_width=self.kv_heads * self.head_dim, padded_vocab=self.padded_vocab)
        require_heads(self.heads, self.kv_heads, self.head_dim)
        if self.layers < 1:
            raise ValueError(f"layers={self.layers}: a model has at least one")
        if self.vocab != 256:
            raise ValueError(f"vocab={self.vocab}: the tokenizer knows the 256 bytes; use 256")
        if self.padded_vocab < self.vocab:
            raise ValueError(f"padded_vocab={self.padded_vocab} is below vocab={self.vocab}; use {self.vocab} or more")

    @property
    def query_width(self) -> int:
        """Outputs of q_proj."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Outputs of k_proj and of v_proj."""
        return self.kv_heads * self.head_dim

    def vectors(self) -> Shapes:
        """Return name -> shape of the embedding and the norms, which are stored in bf16."""
        shapes: Shapes = {EMBEDDING: (self.padded_vocab, self.hidden), "model.norm.weight": (self.hidden,)}
        for layer in range(self.layers):
            shapes |= norm_shapes(f"model.layers.{layer}.", self.hidden, self.head_dim)
        return shapes

    def matrices(self) -> Shapes:
        """Return name -> logical shape [out, in] of the matrices, which are stored in q4_1."""
        shapes: Shapes = {LM_HEAD: (self.padded_vocab, self.hidden)}
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            shapes |= matrix_shapes(prefix, self.hidden, self.intermediate, self.query_width, self.kv_width)
        return shapes


def norm_shapes(prefix: str, hidden: int, head_dim: int) -> Shapes:
    """Return name -> shape of the norms of one qwen3 layer."""
    return {
        f"{prefix}input_layernorm.weight": (hidden,),
        f"{prefix}post_attention_layernorm.weight": (hidden,),
        f"{prefix}self_attn.q_norm.weight": (head_dim,),
        f"{prefix}self_attn.k_norm.weight": (head_dim,),
    }


def matrix_shapes(prefix: str, hidden: int, intermediate: int, query: int, kv: int) -> Shapes:
    """Return name -> shape [out, in] of the matrices of one qwen3 layer; `query` and `kv` are widths over all heads."""
    return {
        f"{prefix}self_attn.q_proj.weight": (query, hidden),
        f"{prefix}self_attn.k_proj.weight": (kv, hidden),
        f"{prefix}self_attn.v_proj.weight": (kv, hidden),
        f"{prefix}self_attn.o_proj.weight": (hidden, query),
        f"{prefix}mlp.gate_proj.weight": (intermediate, hidden),
        f"{prefix}mlp.up_proj.weight": (intermediate, hidden),
        f"{prefix}mlp.down_proj.weight": (hidden, intermediate),
    }


def _require_multiples(unit: int, **values: int) -> None:
    for key, value in values.items():
        if value <= 0 or value % unit:
            raise ValueError(f"{key}={value} is no positive multiple of {unit}; a tile of the container needs one")


def require_heads(heads: int, kv_heads: int, head_dim: int) -> None:
    """Raise ValueError where heads cannot share keys, or RoPE has no pairs."""
    if kv_heads < 1 or heads < 1 or heads % kv_heads:
        raise ValueError(f"kv_heads={kv_heads} does not divide heads={heads}; use a divisor")
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim={head_dim} is not even; RoPE turns pairs")
