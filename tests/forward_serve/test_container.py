"""Containers open to the recorded weights, or are refused by file, tensor, value and rule."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forward_serve.container import Qwen3Config, open_container
from tests.forward_serve.containers import (
    EMBEDDING,
    LM_HEAD,
    QUERY,
    QUERY_NORM,
    Header,
    assert_refused,
    bf16,
    edit_json,
    overwrite,
    rewrite,
    set_entry,
    split,
)


def test_golden_container_decodes_to_the_weights_of_its_formulas(tiny: Path) -> None:
    weights = open_container(tiny).weights
    row, column = np.arange(256)[:, None], np.arange(256)

    def packed(number: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        group = column // 32
        code = (7 * row + 3 * column + 5 * group + 11 * number) % 16
        scale = np.float32(2**-8) * (1 + ((3 * row + 5 * group + number) % 16) / 16).astype(np.float32)
        low = np.float32(-7.5) * scale
        bits = low.view(np.uint32)
        low = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
        return np.asarray(code.astype(np.float32) * scale + low)

    def norm(number: int, size: int) -> list[float]:
        return [1 + ((5 * index + number) % 16 - 8) / 64 for index in range(size)]

    second = weights.layers[1]
    np.testing.assert_array_equal(weights.embedding, (((13 * row + 29 * column) % 33) - 16) / 256)
    np.testing.assert_array_equal(weights.lm_head, packed(0))
    np.testing.assert_array_equal(second.qkv, np.concatenate([packed(8), packed(9)[:128], packed(10)[:128]]))
    np.testing.assert_array_equal(second.output, packed(11))
    np.testing.assert_array_equal(second.gate_up, np.concatenate([packed(12), packed(13)]))
    np.testing.assert_array_equal(second.down, packed(14))
    norms = [weights.final_norm, second.input_norm, second.post_attention_norm, second.query_norm, second.key_norm]
    want = [norm(0, 256), norm(5, 256), norm(6, 256), norm(7, 128), norm(8, 128)]
    assert [values.tolist() for values in norms] == want


def test_golden_config_and_tokenizer_files_are_read(tiny: Path) -> None:
    got = open_container(tiny)
    sizes = {"vocab_size": 256, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "head_dim": 128}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 1024}
    assert got.config == Qwen3Config(**sizes, **heads, rms_norm_eps=1e-6, rope_theta=1e6)
    assert got.directory == tiny
    assert got.vocab_bound == 256
    assert got.end_ids == {185, 187}
    assert json.loads(got.tokenizer_json)["version"] == "1.0"
    assert got.chat_template == got.tokenizer_config["chat_template"]


def test_a_q4nx_file_of_another_name_opens_with_the_rest_of_its_directory(tiny: Path) -> None:
    path = (tiny / "model.q4nx").rename(tiny / "other.q4nx")
    assert open_container(path).directory == tiny


def test_each_file_is_opened_once(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tiny / "generation_config.json").write_text("{}")
    opened: list[str] = []
    read_bytes = Path.read_bytes

    def recorded(path: Path) -> bytes:
        opened.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", recorded)
    open_container(tiny)
    names = ["config.json", "generation_config.json", "model.q4nx", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(opened) == names


def test_tensors_in_another_order_at_odd_offsets_with_metadata_and_3d_tiles_give_the_same_weights(tiny: Path) -> None:
    want = open_container(tiny).weights
    path = tiny / "model.q4nx"
    header, data = split(path.read_bytes())
    moved: Header = {"__metadata__": {"made": "by hand"}}
    parts: list[bytes] = []
    position = 0
    for name in sorted(header, reverse=True):
        start, stop = header[name]["data_offsets"]
        parts.append(data[start:stop])
        moved[name] = {**header[name], "data_offsets": [position, position + stop - start]}
        position += stop - start
    moved[QUERY]["shape"] = [8, 1, 5120]
    text = json.dumps(moved).encode()
    text += b" " * (1 - len(text) % 2)  # an odd length: no alignment
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    got = open_container(tiny).weights
    np.testing.assert_array_equal(got.embedding, want.embedding)
    np.testing.assert_array_equal(got.layers[1].qkv, want.layers[1].qkv)


def test_duplicate_keys_nulls_and_wrong_architectures_in_config_are_tolerated(tiny: Path) -> None:
    want = open_container(tiny).config
    text = (tiny / "config.json").read_text().replace("Qwen3ForCausalLM", "LlamaForCausalLM")
    text = text.replace("{", '{"rope_scaling": 3, "hidden_size": 7, "hidden_act": "gelu", "attention_bias": null,', 1)
    (tiny / "config.json").write_text(text.replace('"attention_bias": false', '"attention_bias": null'))
    assert open_container(tiny).config == want


@pytest.mark.parametrize(
    ("tokenizer_eos", "generation_eos", "config_eos", "want"),
    [([5, 6], 7, 8, {5, 6, 185, 187}), (None, 7, 8, {7, 185, 187}), (None, None, [8], {8, 185, 187})],
)
def test_end_ids_are_those_of_the_first_source_present_and_the_two_specials(
    tiny: Path, tokenizer_eos: object, generation_eos: object, config_eos: object, want: set[int]
) -> None:
    edit_json(tiny / "tokenizer_config.json", eos_token_id=tokenizer_eos)
    (tiny / "generation_config.json").write_text(json.dumps({"eos_token_id": generation_eos}))
    edit_json(tiny / "config.json", eos_token_id=config_eos)
    assert open_container(tiny).end_ids == want


def test_without_tokenizer_config_and_generation_config_the_config_names_the_end_ids(tiny: Path) -> None:
    (tiny / "tokenizer_config.json").unlink()
    edit_json(tiny / "config.json", eos_token_id=9)
    assert open_container(tiny).end_ids == {9, 185, 187}
    assert open_container(tiny).chat_template is None


def test_vocab_bound_counts_ids_of_added_tokens_and_not_of_padding(tiny: Path) -> None:
    tokenizer = json.loads((tiny / "tokenizer.json").read_text())
    vocab = {token: token_id for token, token_id in tokenizer["model"]["vocab"].items() if token_id < 200}
    added_tokens = [*tokenizer["added_tokens"], {"id": 210, "content": "<|last|>"}]
    edit_json(tiny / "tokenizer.json", model={"vocab": vocab}, added_tokens=added_tokens)
    assert open_container(tiny).vocab_bound == 211


def test_of_named_chat_templates_the_default_is_taken_and_a_number_is_refused(tiny: Path) -> None:
    templates = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    edit_json(tiny / "tokenizer_config.json", chat_template=templates)
    assert open_container(tiny).chat_template == "d"
    edit_json(tiny / "tokenizer_config.json", chat_template=3)
    assert_refused(tiny, "tokenizer_config.json", "chat_template", "int")


NO_BYTES = {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]}
TENSOR_FAULTS: dict[str, tuple[Callable[[Header], object], list[str]]] = {
    "too few tiles": (set_entry(LM_HEAD, shape=[4, 10240]), [LM_HEAD, "10240", "of no known kind"]),
    "tiles in a wrong grid": (set_entry(LM_HEAD, shape=[4, 2, 5120]), [LM_HEAD, "[4, 2]", "256 x 256", "8 tiles"]),
    "bf16 where tiles are wanted": (set_entry(LM_HEAD, dtype="BF16", shape=[4, 5120]), [LM_HEAD, "BF16", "I8 is wanted"]),
    "tiles where bf16 is wanted": (set_entry(QUERY_NORM, dtype="I8", shape=[256]), [QUERY_NORM, "I8", "BF16 is wanted"]),
    "a missing tensor": (lambda header: header.update({"x": header.pop(QUERY_NORM)}), [QUERY_NORM, "is missing"]),
    "a tensor of no model": (lambda header: header.update(x=NO_BYTES), ["tensor x", "has no place"]),
}


@pytest.mark.parametrize("fault", TENSOR_FAULTS)
def test_a_header_is_refused_that_does_not_fit_config_json_with(tiny: Path, fault: str) -> None:
    edit, words = TENSOR_FAULTS[fault]
    rewrite(tiny, edit)
    assert_refused(tiny, "model.q4nx", *words)


def test_a_norm_with_a_nan_is_refused(tiny: Path) -> None:
    overwrite(tiny, QUERY_NORM, 8, bf16(float("nan")))
    assert_refused(tiny, "model.q4nx", QUERY_NORM, "nan", "finite")


JSON_FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "another model type": ({"model_type": "llama"}, ["config.json", "model_type='llama'", "'qwen3'"]),
    "no model type": ({"model_type": None}, ["model_type=None"]),
    "no head_dim": ({"head_dim": None}, ["config.json", "head_dim=None", "required"]),
    "a hidden size that is text": ({"hidden_size": "256"}, ["hidden_size='256'", "int"]),
    "a hidden size that is true": ({"hidden_size": True}, ["hidden_size=True", "int"]),
    "no layers": ({"num_hidden_layers": 0}, ["num_hidden_layers=0", "positive"]),
    "an infinite theta": ({"rope_theta": float("inf")}, ["rope_theta=inf", "finite"]),
    "a theta that is NaN": ({"rope_theta": float("nan")}, ["rope_theta=nan", "finite"]),
    "an odd head_dim": ({"head_dim": 127}, ["head_dim=127", "odd"]),
    "key heads that do not divide": ({"num_key_value_heads": 3}, ["num_key_value_heads=3", "num_attention_heads=2"]),
    "scaled rope": ({"rope_scaling": {"rope_type": "yarn"}}, ["rope_scaling", "yarn"]),
    "attention bias": ({"attention_bias": True}, ["attention_bias=True", "False"]),
    "a sliding window": ({"use_sliding_window": True}, ["use_sliding_window=True"]),
    "another activation": ({"hidden_act": "gelu"}, ["hidden_act='gelu'", "'silu'"]),
    "another vocabulary": ({"vocab_size": 288}, ["model.q4nx", EMBEDDING, "[256, 256]", "vocab_size=288"]),
    "another hidden size": ({"hidden_size": 512}, ["model.q4nx", EMBEDDING, "hidden_size=512"]),
    "another head_dim": ({"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2}, [QUERY_NORM[:25], "head_dim=64"]),
    "more query heads": ({"num_attention_heads": 3}, ["self_attn.q_proj", "384 x 256", "12 tiles"]),
    "an inner size with odd rows": ({"intermediate_size": 250}, ["mlp.gate_proj", "250 x 256", "multiple of 32"]),
    "another depth, more": ({"num_hidden_layers": 3}, ["model.layers.2", "is missing"]),
    "another depth, fewer": ({"num_hidden_layers": 1}, ["model.layers.1", "has no place"]),
    "an eos id behind the vocabulary": ({"eos_token_id": 256}, ["config.json", "id 256", "vocab_size=256"]),
    "an eos id that is negative": ({"eos_token_id": [1, -1]}, ["config.json", "id -1"]),
    "an eos id that is text": ({"eos_token_id": "2"}, ["config.json", "id '2'"]),
    "an id behind the vocabulary": ({"added_tokens": [{"id": 256, "content": "<x>"}]}, ["'<x>'", "256"]),
    "no vocabulary": ({"model": {}}, ["'vocab'"]),
    "a vocabulary that is a list": ({"model": {"vocab": [["a", 1]]}}, ["model.vocab must map"]),
    "an id that is text": ({"model": {"vocab": {"a": "1"}}}, ["'a'", "'1'"]),
    "no token": ({"model": {"vocab": {}}, "added_tokens": []}, ["no token"]),
    "no added_tokens": ({"added_tokens": None}, ["added_tokens"]),
}


@pytest.mark.parametrize("fault", JSON_FAULTS)
def test_a_json_file_is_refused_that_has(tiny: Path, fault: str) -> None:
    changes, words = JSON_FAULTS[fault]
    edit_json(tiny / "tokenizer_config.json", eos_token_id=None)
    edit_json(tiny / ("tokenizer.json" if {"model", "added_tokens"} & set(changes) else "config.json"), **changes)
    assert_refused(tiny, *words)


@pytest.mark.parametrize("name", ["model.q4nx", "config.json", "tokenizer.json"])
def test_a_missing_file_and_a_path_to_another_file_are_refused_by_name(tiny: Path, name: str) -> None:
    assert_refused(tiny / "config.json", "config.json: neither a directory nor a .q4nx file")
    (tiny / name).unlink()
    assert_refused(tiny, f"{name}: No such file")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000], ids=["empty", "cut", "list", "deep"])
def test_a_file_that_is_no_json_object_is_refused_by_name(tiny: Path, name: str, text: str) -> None:
    (tiny / name).write_text(text)
    assert_refused(tiny, name, "JSON")
