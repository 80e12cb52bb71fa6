"""The Hugging Face twin: float32 safetensors under Qwen3ForCausalLM's names, and a config that fits them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from harness.fabricate.decoded import decoded, shape_of
from harness.fabricate.twins import twin
from harness.records.fixture import Fixture


def test_the_weights_are_the_decoded_ones_under_the_same_names(small: Fixture) -> None:
    original = json.loads((Path(small.model) / "config.json").read_bytes())
    want = decoded(Path(small.model), shape_of(original))
    got = load_file(twin(small, "small+hf") / "model.safetensors")
    assert got.keys() == want.keys()
    assert {name for name in got if got[name].dtype != np.float32 or got[name].tobytes() != want[name].tobytes()} == set()


def test_the_config_says_float32_and_the_vocabulary_that_the_weights_have(small: Fixture) -> None:
    folder = twin(small, "small+context=40+hf")
    config = json.loads((folder / "config.json").read_bytes())
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert (config["vocab_size"], config["torch_dtype"], config["max_position_embeddings"]) == (256, "float32", 40)
    assert [key for key in config if key.startswith(("addr_", "flm_"))] == []
    assert config["tie_word_embeddings"] is False


def test_the_folder_has_the_container_s_tokenizer_and_not_its_weights(small: Fixture) -> None:
    folder, original = twin(small, "small+hf"), Path(small.model)
    assert (folder / "tokenizer.json").read_bytes() == (original / "tokenizer.json").read_bytes()
    assert not (folder / "model.q4nx").exists()
