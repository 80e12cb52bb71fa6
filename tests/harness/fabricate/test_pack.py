"""Packs on disk: names, shapes, config, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors

from harness.fabricate.errors import FabricationError
from harness.fabricate.pack import generation_one_config, read_pack, write_pack
from harness.fabricate.shape import DraftShape, ModelShape
from harness.fabricate.trunk import TrunkDials, random_draft

MODEL = ModelShape(hidden=256, intermediate=256, layers=3, heads=2, kv_heads=1, head_dim=128, vocab=256, padded_vocab=288)
DRAFT = DraftShape(intermediate=64, layers=2, heads=4, kv_heads=2, head_dim=48, taps=(0, 1), block_size=8, mask_token_id=250)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("packs") / "mixed"
    config = generation_one_config(DRAFT, MODEL, [185, 187], 1024)
    write_pack(directory, config, random_draft(DRAFT, 256, TrunkDials(), 1), DRAFT.tensors(256))
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
    want = random_draft(DRAFT, 256, TrunkDials(), 1)
    got = read_pack(pack)
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        np.testing.assert_array_equal(got[name], tensor)


def test_a_pack_with_a_misshapen_tensor_is_refused_by_name(tmp_path: Path) -> None:
    tensors = {**random_draft(DRAFT, 256, TrunkDials(), 1), "norm.weight": np.ones(255)}
    with pytest.raises(FabricationError, match=r"tensors \['norm\.weight'\] are missing, unknown or misshapen"):
        write_pack(tmp_path / "odd", {}, tensors, DRAFT.tensors(256))
    assert not (tmp_path / "odd").exists()
