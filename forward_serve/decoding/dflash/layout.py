"""The names and shapes of a pack's tensors, from its configuration. Knows no bytes and no arithmetic.

A linear weight is stored [out, in]. Generation 1 has 11 tensors for each layer and 3 more, generation 2 has 15 and 6.
"""

from __future__ import annotations

from forward_serve.decoding.dflash.config import DFlashConfig
from forward_serve.decoding.dflash.generation2 import Generation2
from forward_serve.decoding.dflash.tensors import Shape


def tensor_shapes(config: DFlashConfig) -> dict[str, Shape]:
    """Return the shape of every tensor of such a pack, by name."""
    hidden = config.hidden_size
    of_layer = _layer_shapes(config)
    shapes: dict[str, Shape] = {
        "fc.weight": (hidden, len(config.target_layer_ids) * hidden),
        "hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
    }
    if config.generation_2 is not None:
        of_layer |= _conv_shapes(config.generation_2, hidden)
        shapes |= _selector_shapes(config.generation_2, hidden, config.vocab_size)
    for index in range(config.num_hidden_layers):
        shapes |= {f"layers.{index}.{name}": shape for name, shape in of_layer.items()}
    return shapes


def _layer_shapes(config: DFlashConfig) -> dict[str, Shape]:
    hidden, width = config.hidden_size, config.intermediate_size
    queries = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    return {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "self_attn.q_norm.weight": (config.head_dim,),
        "self_attn.k_norm.weight": (config.head_dim,),
        "mlp.gate_proj.weight": (width, hidden),
        "mlp.up_proj.weight": (width, hidden),
        "mlp.down_proj.weight": (hidden, width),
    }


def _conv_shapes(sizes: Generation2, hidden: int) -> dict[str, Shape]:
    """Return what each layer adds: the rows of a projection go by side, then tap, then group."""
    num_deltas = 2 * sizes.conv_kernel_size * (hidden // sizes.conv_group_size)
    shapes: dict[str, Shape] = {}
    for conv in ("attention_conv", "mlp_conv"):
        shapes[f"{conv}.base_kernel"] = (2, sizes.conv_kernel_size, hidden)
        shapes[f"{conv}.kernel_projection.weight"] = (num_deltas, hidden)
    return shapes


def _selector_shapes(sizes: Generation2, hidden: int, vocab: int) -> dict[str, Shape]:
    """Return what the pack adds once; a codebook's name has no `.weight`."""
    return {
        "candidate_selector.predecessor_codebook": (vocab, sizes.selector_rank),
        "candidate_selector.successor_codebook": (vocab, sizes.selector_rank),
        "candidate_selector.hidden_projection.weight": (sizes.selector_rank, hidden),
    }
