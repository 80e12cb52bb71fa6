"""What a config.json may say: both spellings are read, and what would be dropped is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forward_serve.decoding.dflash.config import read_config
from forward_serve.decoding.dflash.generation2 import Generation2
from forward_serve.errors import Refusal
from tests.forward_serve.decoding.dflash.conftest import SECOND

WriteConfig = Callable[[Mapping[str, Any]], Path]

BAD: list[tuple[dict[str, Any], str]] = [
    ({"architectures": ["Qwen3ForCausalLM"]}, r"architectures=\['Qwen3ForCausalLM'\] is neither"),
    ({"architectures": ["DFlashDraftModel", "DFlash2DraftModel"]}, "architectures=.* is neither"),
    ({"architectures": "DFlashDraftModel"}, "architectures='DFlashDraftModel' is neither"),
    ({"architectures": ...}, "architectures=absent"),
    ({"dflash_config.target_layer_ids": ...}, "target_layer_ids=absent is required"),
    ({"dflash_config.target_layer_ids": None}, "target_layer_ids=absent is required"),
    ({"dflash_config.target_layer_ids": [0, -1]}, r"target_layer_ids=\[0, -1\] has a negative id"),
    ({"dflash_config.target_layer_ids": []}, r"target_layer_ids=\[\] is not a list of layer ids"),
    ({"dflash_config.target_layer_ids": [0, True]}, "target_layer_ids=.* is not a list of layer ids"),
    ({"dflash_config.target_layer_ids": "0,1"}, "target_layer_ids='0,1' is not a list of layer ids"),
    ({"dflash_config.mask_token_id": ...}, "mask_token_id=absent"),
    ({"dflash_config.mask_token_id": 32}, "mask_token_id=32 is not below vocab_size=32"),
    ({"dflash_config.mask_token_id": -1}, "mask_token_id=-1"),
    ({"block_size": 1}, "block_size=1 is not a whole number of at least 2"),
    ({"dflash_config.block_size": 1}, "block_size=1 is not a whole number of at least 2"),
    ({"block_size": 8.0}, "block_size=8.0"),
    ({"dflash_config": []}, r"dflash_config=\[\] is not an object"),
    ({"attention_sink_bias": True}, "attention_sink_bias=True changes drafts"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5 changes drafts"),
    ({"attention_value_scale": 0.7}, "attention_value_scale=0.7 changes drafts"),
    ({"attention_bias": True}, "attention_bias=True changes drafts"),
    ({"hidden_act": "gelu"}, "hidden_act='gelu' changes drafts"),
    ({"is_neox_style": False}, "is_neox_style=False changes drafts"),
    ({"logit_scale": 2.0}, "logit_scale=2.0 changes drafts"),
    ({"dflash_config.use_swa": True}, "dflash_config.use_swa=True"),
    ({"dflash_config.causal": False}, "dflash_config.causal=False"),
    ({"dflash_config.conv_kernel_size": 2}, "dflash_config.conv_kernel_size=2 belongs to generation 2"),
    ({"selector_top_k": 4}, "selector_top_k=4 belongs to generation 2"),
    ({"rotary_dim": 4}, "rotary_dim=4 is a key that this reader does not know"),
    ({"dflash_config.mask_embedding": "x"}, "dflash_config.mask_embedding='x' is a key"),
    ({"draft_vocab_size": 16}, "draft_vocab_size=16 is not 32"),
    ({"target_hidden_size": 32}, "target_hidden_size=32 is not 16"),
    ({"hidden_size": ...}, "hidden_size=absent"),
    ({"hidden_size": "16"}, "hidden_size='16'"),
    ({"num_key_value_heads": 3}, "num_key_value_heads=3 does not divide num_attention_heads=4"),
    ({"head_dim": 5}, "head_dim=5 is odd"),
    ({"rms_norm_eps": 0}, "rms_norm_eps=0 is not above 0"),
    ({"rms_norm_eps": float("nan")}, "rms_norm_eps=nan is not a finite number"),
    ({"rope_theta": ...}, "rope_theta=absent"),
    ({"rope_scaling": {"rope_type": "yarn"}}, "rope_scaling=.* is not implemented"),
    ({"rope_theta": ..., "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope_parameters.rope_type='yarn'"),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, "rope_theta=20000.0 differs from"),
    ({"rope_theta": ..., "rope_parameters": {"rope_theta": 1e4, "factor": 2.0}}, "rope_parameters.factor=2.0"),
    ({"layer_types": ["full_attention"]}, "layer_types=.* has 1 entries for 2 layers"),
    ({"layer_types": ["full_attention", "linear_attention"]}, "layer_types=.* is not a list"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_window=None is not a whole number"),
    ({"is_causal": 1}, "is_causal=1 is neither true, false nor null"),
    ({"dflash_config.output_multiplier": 0}, "output_multiplier=0 is not above 0"),
    ({"dflash_config.input_embedding_scale": "2"}, "input_embedding_scale='2' is not a finite number"),
]
BAD_SECOND: list[tuple[dict[str, Any], str]] = [
    ({"dflash_config.selector_top_k": ...}, "selector_top_k=absent is not a whole number of at least 1"),
    ({"dflash_config.selector_top_k": None}, "selector_top_k=absent is not a whole number of at least 1"),
    ({"dflash_config.selector_top_k": 0}, "selector_top_k=0 is not a whole number of at least 1"),
    ({"dflash_config.selector_top_k": 33}, "selector_top_k=33 is above vocab_size=32"),
    ({"dflash_config.selector_rank": ...}, "selector_rank=absent"),
    ({"dflash_config.selector_rank": 0}, "selector_rank=0"),
    ({"dflash_config.conv_kernel_size": ...}, "conv_kernel_size=absent"),
    ({"dflash_config.conv_kernel_size": 0}, "conv_kernel_size=0"),
    ({"dflash_config.conv_kernel_size": 2.0}, "conv_kernel_size=2.0"),
    ({"dflash_config.conv_group_size": ...}, "conv_group_size=absent"),
    ({"dflash_config.conv_group_size": 5}, "conv_group_size=5 does not divide hidden_size=16"),
    ({"dflash_config.conv_group_size": 32}, "conv_group_size=32 does not divide hidden_size=16"),
    ({"dflash_config.target_layer_ids": ...}, "target_layer_ids=absent is required"),
    ({"attention_sink_bias": True}, "attention_sink_bias=True changes drafts"),
    ({"dflash_config.selector_temperature": 2}, "dflash_config.selector_temperature=2 is a key that this reader does not know"),
    ({"layer_types": ["sliding_attention"] * 2}, "sliding_window=None is not a whole number"),
    ({"rope_parameters": {"rope_type": "default"}}, "rope_parameters.rope_theta=absent"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[message for _, message in BAD])
def test_refused_by_file_key_and_value(write_config: WriteConfig, changes: dict[str, Any], message: str) -> None:
    path = write_config(changes)
    with pytest.raises(Refusal, match=rf"{path}: {message}.*; \w+"):
        read_config(path)


@pytest.mark.parametrize(("changes", "message"), BAD_SECOND, ids=[message for _, message in BAD_SECOND])
def test_refused_of_generation_2_by_file_key_and_value(write_config: WriteConfig, changes: dict[str, Any], message: str) -> None:
    path = write_config({**SECOND, **changes})
    with pytest.raises(Refusal, match=rf"{path}: {message}.*; \w+"):
        read_config(path)


@pytest.mark.parametrize(
    ("content", "message"), [(b"{", "is not JSON"), (b"\xff\xfe\x00", "is not JSON"), (b"[]", "holds a list")]
)
def test_file_that_is_no_json_object_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(Refusal, match=f"{path}: {message}"):
        read_config(path)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"config\.json: cannot be read"):
        read_config(tmp_path / "config.json")


def test_block_size_inside_dflash_config_comes_before_the_top_level(write_config: WriteConfig) -> None:
    assert read_config(write_config({"block_size": 4, "dflash_config.block_size": 9})).block_size == 9


def test_keys_of_dflash_config_are_found_at_the_top_level_too(write_config: WriteConfig) -> None:
    config = read_config(write_config({"dflash_config": ..., "mask_token_id": 3, "target_layer_ids": [2]}))
    assert (config.mask_token_id, config.target_layer_ids, config.block_size) == (3, (2,), 6)


def test_absent_block_size_is_the_reference_s_sixteen(write_config: WriteConfig) -> None:
    assert read_config(write_config({"block_size": ...})).block_size == 16


def test_rope_theta_of_the_newer_spelling_is_read(write_config: WriteConfig) -> None:
    changes = {"rope_theta": ..., "rope_parameters": {"rope_theta": 5e5, "rope_type": "default", "partial_rotary_factor": 1}}
    assert read_config(write_config(changes)).rope_theta == 5e5


def test_tap_order_is_the_order_of_the_list(write_config: WriteConfig) -> None:
    assert read_config(write_config({})).target_layer_ids == (1, 0, 3)


@pytest.mark.parametrize(
    ("is_causal", "want"), [(..., (True, False)), (None, (True, False)), (False, (False, False)), (True, (True, True))]
)
def test_a_layer_is_causal_if_it_slides_unless_is_causal_says_it_for_all(
    write_config: WriteConfig, is_causal: Any, want: tuple[bool, bool]
) -> None:
    types = ["sliding_attention", "full_attention"]
    config = read_config(write_config({"layer_types": types, "sliding_window": 7, "is_causal": is_causal}))
    assert (config.causal, config.windows) == (want, (7, None))


def test_sizes_of_generation_2_are_read_from_dflash_config_first_and_from_the_top_level_too(write_config: WriteConfig) -> None:
    inner = {"dflash_config.selector_rank": ..., "selector_rank": 7, "selector_top_k": 9}
    config = read_config(write_config({**SECOND, **inner}))
    assert config.generation_2 == Generation2(conv_kernel_size=2, conv_group_size=4, selector_rank=7, selector_top_k=4)


def test_generation_2_spells_block_size_theta_and_causality_in_its_own_places(write_config: WriteConfig) -> None:
    changes = {"dflash_config.block_size": 9, "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}
    sliding = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 7, "use_sliding_window": True}
    config = read_config(write_config({**SECOND, **sliding, **changes}))
    assert (config.block_size, config.rope_theta) == (9, 5e5)
    assert (config.causal, config.windows) == ((False, False), (7, 7))


def test_generation_1_has_no_sizes_of_generation_2(write_config: WriteConfig) -> None:
    assert read_config(write_config({})).generation_2 is None


@pytest.mark.parametrize("value", [None, 0, -3.0])
def test_soft_cap_that_is_not_above_zero_is_off(write_config: WriteConfig, value: float | None) -> None:
    assert read_config(write_config({"dflash_config.final_logit_softcapping": value})).final_logit_softcapping is None


@pytest.mark.parametrize(
    "changes", [{"attention_sink_bias": False}, {"is_neox_style": True}, {"draft_vocab_size": 32}, {"unknown": None}]
)
def test_value_that_changes_nothing_is_served(write_config: WriteConfig, changes: dict[str, Any]) -> None:
    assert read_config(write_config(changes)).hidden_size == 16


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("hidden_size", 32, "hidden_size=16 is not the target's 32"),
        ("vocab_size", 40, "vocab_size=32 is not the target's 40"),
        ("num_hidden_layers", 6, "num_target_layers=5 is not the target's 6"),
    ],
)
def test_target_of_another_shape_is_refused(write_config: WriteConfig, key: str, value: int, message: str) -> None:
    shape = {"hidden_size": 16, "vocab_size": 32, "num_hidden_layers": 5}
    config = read_config(write_config({}))
    config.check_against(SimpleNamespace(**shape))
    with pytest.raises(Refusal, match=message):
        config.check_against(SimpleNamespace(**shape | {key: value}))


def test_tap_that_is_no_layer_of_the_target_is_refused(write_config: WriteConfig) -> None:
    config = read_config(write_config({"dflash_config.target_layer_ids": [0, 5], "num_target_layers": ...}))
    config.check_against(SimpleNamespace(hidden_size=16, vocab_size=32, num_hidden_layers=6))
    with pytest.raises(Refusal, match=r"target_layer_ids=\[0, 5\] has an id that is not a layer of the target \(0..4\)"):
        config.check_against(SimpleNamespace(hidden_size=16, vocab_size=32, num_hidden_layers=5))
