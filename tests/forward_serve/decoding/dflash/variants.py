"""The configurations on which engine and reference are compared, as changes of conftest.CONFIG."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.forward_serve.decoding.dflash.conftest import SECOND

SLIDING = {"layer_types": ["sliding_attention"] * 2, "use_sliding_window": True}
SLIDING_THEN_FULL = {**SLIDING, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 7}
SCALED = {
    "dflash_config.output_multiplier": 0.5,
    "dflash_config.final_logit_softcapping": 3.0,
    "dflash_config.input_embedding_scale": 2.0,
}
KERNEL_OF_THREE = {"dflash_config.conv_kernel_size": 3, "dflash_config.conv_group_size": 8}

FIRST_VARIANTS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "full": {},
        "sliding-causal": {**SLIDING, "sliding_window": 7},
        "sliding-both-ways": {**SLIDING, "sliding_window": 9, "is_causal": False},
        "window-under-the-block": {**SLIDING, "sliding_window": 4, "is_causal": False},
        "sliding-then-full": SLIDING_THEN_FULL,
        "full-causal": {"is_causal": True},
        "scaled-and-capped": SCALED,
        "one-kv-head-and-five-layers": {"num_key_value_heads": 1, "num_hidden_layers": 5, "head_dim": 10},
        "one-tap-and-block-of-two": {"dflash_config.target_layer_ids": [2], "block_size": 2, "rope_theta": 1e6},
    }
)
SECOND_VARIANTS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "second-sliding-both-ways": {**SECOND, **SLIDING, "sliding_window": 9},  # under the prompt, above the block
        "second-kernel-of-three": {**SECOND, **KERNEL_OF_THREE},
        "second-scaled-and-capped": {**SECOND, **SCALED, "dflash_config.selector_top_k": 8},
        "second-window-under-the-block": {**SECOND, **SLIDING, "sliding_window": 4},
        "second-causal-as-it-slides": {**SECOND, **SLIDING, "sliding_window": 7, "is_causal": ...},
        "second-one-candidate-of-rank-one": {**SECOND, "dflash_config.selector_top_k": 1, "dflash_config.selector_rank": 1},
        "second-whole-vocabulary": {**SECOND, "dflash_config.selector_top_k": 32},
        "second-no-neighbours-one-group": {**SECOND, "dflash_config.conv_kernel_size": 1, "dflash_config.conv_group_size": 16},
        "second-kernel-above-the-block": {**SECOND, "dflash_config.conv_kernel_size": 4, "dflash_config.block_size": 2},
    }
)
VARIANTS: Mapping[str, dict[str, Any]] = MappingProxyType({**FIRST_VARIANTS, **SECOND_VARIANTS})
