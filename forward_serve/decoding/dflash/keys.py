"""The keys of a DFlash config.json, sorted by what they do. Data alone; config.py reads by it.

A key that is in no set is refused by name: dropping it could change drafts, which no reply would show.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# The key architectures is the only switch between generations: a list of one of these.
GENERATION_1: Final = "DFlashDraftModel"
GENERATION_2: Final = "DFlash2DraftModel"

# How a pack was trained or packed, or what another key decides; no value of them changes a draft.
INERT: Final = frozenset(
    {
        "architectures",
        "attention_dropout",
        "auto_map",
        "bos_token_id",
        "dflash_config",
        "dtype",
        "eos_token_id",
        "initializer_range",
        "max_position_embeddings",
        "max_window_layers",
        "model_type",
        "pad_token_id",
        "tie_word_embeddings",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "use_sliding_window",
    }
)
READ_AT_TOP: Final = frozenset(
    {
        "draft_vocab_size",
        "head_dim",
        "hidden_size",
        "intermediate_size",
        "is_causal",
        "layer_types",
        "num_attention_heads",
        "num_hidden_layers",
        "num_key_value_heads",
        "num_target_layers",
        "rms_norm_eps",
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "sliding_window",
        "target_hidden_size",
        "vocab_size",
    }
)
# Looked up in dflash_config first, then at the top: these and the ones of generation 2.
SPECIFIC: Final = frozenset(
    {
        "block_size",
        "final_logit_softcapping",
        "input_embedding_scale",
        "mask_token_id",
        "output_multiplier",
        "target_layer_ids",
    }
)
GENERATION_2_ONLY: Final = frozenset({"conv_group_size", "conv_kernel_size", "selector_rank", "selector_top_k"})

# Keys of other loaders that would change a draft, with the values that change nothing.
NEUTRAL: Final[Mapping[str, tuple[object, ...]]] = MappingProxyType(
    {
        "attention_bias": (False,),
        "attention_sink_bias": (False,),
        "attention_value_scale": (1,),
        "causal": (),
        "hidden_act": ("silu",),
        "is_neox_style": (True,),
        "logit_scale": (1,),
        "partial_rotary_factor": (1,),
        "swa_window_size": (),
        "use_swa": (False,),
    }
)
