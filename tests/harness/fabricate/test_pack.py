"""Packs on disk: names, shapes, config, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors

from harness.fabricate.draft_shape import DraftShape, Generation2
from harness.fabricate.draft_trunk import DynamicsDials, Tensors, random_draft
from harness.fabricate.errors import FabricationError
from harness.fabricate.pack import pack_config, read_pack, write_pack
from harness.fabricate.shape import ModelShape
from harness.fabricate.trunk import TrunkDials

MODEL = ModelShape(hidden=256, intermediate=256, layers=3, heads=2, kv_heads=1, head_dim=128, vocab=256, padded_vocab=288)
DRAFT = DraftShape(intermediate=64, layers=2, heads=4, kv_heads=2, head_dim=48, taps=(0, 1), block_size=8, mask_token_id=250)


SECOND = DraftShape(
    intermediate=64,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=48,
    taps=(1, 0),
    block_size=5,
    mask_token_id=270,
    window=12,
    generation_2=Generation2(conv_kernel_size=3, conv_group_size=64, selector_rank=4, selector_top_k=9),
    output_multiplier=0.5,
    final_logit_softcapping=12.0,
    input_embedding_scale=2.0,
)


def tensors(shape: DraftShape) -> Tensors:
    return random_draft(shape, MODEL, TrunkDials(), DynamicsDials(), 1)


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("packs") / "second"
    write_pack(directory, pack_config(SECOND, MODEL, [185], 1024), tensors(SECOND), SECOND.tensors(MODEL))
    return directory


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("packs") / "mixed"
    config = pack_config(DRAFT, MODEL, [185, 187], 1024)
    write_pack(directory, config, tensors(DRAFT), DRAFT.tensors(MODEL))
    return directory


def test_the_tensors_are_those_of_generation_one_in_bf16(pack: Path) -> None:
    with safetensors.safe_open(pack / "model.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}
        found = {name: (file.get_slice(name).get_dtype(), tuple(file.get_slice(name).get_shape())) for name in file.keys()}  # noqa: SIM118  not a dict
    assert len(found) == 11 * 2 + 3
    assert {dtype for dtype, _ in found.values()} == {"BF16"}
    shapes = {name: shape for name, (_, shape) in found.items()}
    assert shapes["fc.weight"] == (256, 512)
    assert shapes["layers.1.self_attn.q_proj.weight"] == (192, 256)
    assert shapes["layers.1.self_attn.v_proj.weight"] == (96, 256)
    assert shapes["layers.0.self_attn.k_norm.weight"] == (48,)
    assert shapes["layers.0.mlp.down_proj.weight"] == (256, 64)


def test_the_config_names_generation_block_mask_and_taps_where_generation_one_has_them(pack: Path) -> None:
    config = json.loads((pack / "config.json").read_bytes())
    assert config["architectures"] == ["DFlashDraftModel"]
    assert config["block_size"] == 8
    assert config["dflash_config"] == {"mask_token_id": 250, "target_layer_ids": [0, 1]}
    assert (config["hidden_size"], config["vocab_size"], config["num_target_layers"]) == (256, 288, 3)
    assert (config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]) == (4, 2, 48)
    assert config["layer_types"] == ["full_attention", "full_attention"]
    assert "is_causal" not in config


def test_a_pack_reads_back_as_it_was_written(pack: Path) -> None:
    want = tensors(DRAFT)
    got = read_pack(pack)
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        np.testing.assert_array_equal(got[name], tensor)


def test_a_pack_with_a_misshapen_tensor_is_refused_by_name(tmp_path: Path) -> None:
    odd = {**tensors(DRAFT), "norm.weight": np.ones(255)}
    with pytest.raises(FabricationError, match=r"tensors \['norm\.weight'\] are missing, unknown or misshapen"):
        write_pack(tmp_path / "odd", {}, odd, DRAFT.tensors(MODEL))
    assert not (tmp_path / "odd").exists()


def test_generation_two_adds_four_tensors_a_layer_and_three_more_and_codebooks_have_no_suffix(second: Path) -> None:
    shapes = {name: tensor.shape for name, tensor in read_pack(second).items()}
    assert len(shapes) == 15 * 2 + 6
    assert shapes["layers.0.attention_conv.base_kernel"] == (2, 3, 256)
    assert shapes["layers.1.mlp_conv.kernel_projection.weight"] == (2 * 3 * 4, 256)
    assert shapes["candidate_selector.predecessor_codebook"] == shapes["candidate_selector.successor_codebook"] == (288, 4)
    assert shapes["candidate_selector.hidden_projection.weight"] == (4, 256)


def test_the_config_of_generation_two_has_its_own_spelling(second: Path) -> None:
    config = json.loads((second / "config.json").read_bytes())
    assert config["architectures"] == ["DFlash2DraftModel"]
    assert config["dflash_config"] == {
        "block_size": 5,
        "conv_group_size": 64,
        "conv_kernel_size": 3,
        "final_logit_softcapping": 12.0,
        "input_embedding_scale": 2.0,
        "mask_token_id": 270,
        "output_multiplier": 0.5,
        "selector_rank": 4,
        "selector_top_k": 9,
        "target_layer_ids": [1, 0],
    }
    assert config["is_causal"] is False
    assert config["layer_types"] == ["sliding_attention", "sliding_attention"]
    assert (config["sliding_window"], config["use_sliding_window"]) == (12, True)
    assert config["rope_parameters"] == {"rope_theta": 1_000_000, "rope_type": "default"}
    assert not {"block_size", "rope_theta", "auto_map"} & config.keys()


def test_layers_that_do_not_slide_are_named_so_and_generation_one_stays_silent_on_causality() -> None:
    shape = DraftShape(64, 2, 4, 2, 48, (0, 1), 8, 250, window=12, full_layers=(1,))
    config = pack_config(shape, MODEL, [185], 64)
    assert config["layer_types"] == ["sliding_attention", "full_attention"]
    assert "is_causal" not in config


def test_only_the_last_output_of_a_random_trunk_has_one_number_for_each_group() -> None:
    found = tensors(SECOND)

    def is_by_group(name: str, side: int) -> bool:
        grouped = found[name][side].reshape(3, 4, 64)
        return bool(np.all(grouped == grouped[..., :1]))

    names = [f"layers.{layer}.{conv}.base_kernel" for layer in (0, 1) for conv in ("attention_conv", "mlp_conv")]
    assert [(name, side) for name in names for side in (0, 1) if is_by_group(name, side)] == [
        ("layers.1.mlp_conv.base_kernel", 1)
    ]
