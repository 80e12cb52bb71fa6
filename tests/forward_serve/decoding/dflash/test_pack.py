"""A pack's tensors: exactly the expected ones, widened without a changed bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forward_serve.decoding.dflash import open_pack
from forward_serve.errors import Refusal
from tests.forward_serve.decoding.dflash.conftest import CONFIG, SECOND, random_tensors

QUERIES = "layers.1.self_attn.q_proj.weight"


def drop(name: str) -> Callable[[Any], None]:
    return lambda tensors: tensors.pop(name)


def add(name: str, value: np.ndarray) -> Callable[[Any], None]:
    return lambda tensors: tensors.update({name: value})


def poison(value: float) -> Callable[[Any], None]:
    def edit(tensors: Any) -> None:
        tensors[QUERIES][3, 4] = value

    return edit


BAD: list[tuple[Callable[[Any], None], str]] = [
    (drop("fc.weight"), r"fc.weight is missing, shape \[16, 48\] expected"),
    (drop(QUERIES), rf"{QUERIES} is missing, shape \[24, 16\] expected"),
    (add("mask_embedding", np.zeros(16, np.float32)), "mask_embedding is not a tensor of such a pack"),
    (add("layers.2.mlp.up_proj.weight", np.zeros((20, 16), np.float32)), "layers.2.mlp.up_proj.weight is not a tensor"),
    (add("model.norm.weight", np.zeros(16, np.float32)), "model.norm.weight is not a tensor"),
    (add(QUERIES, np.zeros((16, 24), np.float32)), rf"{QUERIES} has shape \[16, 24\], config.json makes it \[24, 16\]"),
    (add(QUERIES, np.zeros((24, 16))), f"{QUERIES} has dtype F64, a pack stores BF16"),
    (poison(np.nan), f"{QUERIES} holds a value that is not finite"),
    (poison(-np.inf), f"{QUERIES} holds a value that is not finite"),
]


@pytest.mark.parametrize(("edit", "message"), BAD, ids=[message for _, message in BAD])
def test_refused_by_file_and_tensor(write_pack: Any, edit: Callable[[Any], None], message: str) -> None:
    directory, _, _ = write_pack(edit=edit)
    with pytest.raises(Refusal, match=rf"{directory / 'model.safetensors'}: {message}.*; \w+"):
        open_pack(directory)


CONV, MLP_CONV = "layers.0.attention_conv", "layers.1.mlp_conv"
SELECTOR = "candidate_selector"


def misname(name: str, wrong: str) -> Callable[[Any], None]:
    return lambda tensors: tensors.update({wrong: tensors.pop(name)})


BAD_SECOND: list[tuple[Callable[[Any], None], str]] = [
    (drop(f"{CONV}.base_kernel"), rf"{CONV}.base_kernel is missing, shape \[2, 2, 16\] expected"),
    (drop(f"{SELECTOR}.successor_codebook"), rf"{SELECTOR}.successor_codebook is missing, shape \[32, 5\] expected"),
    (
        misname(f"{SELECTOR}.predecessor_codebook", f"{SELECTOR}.predecessor_codebook.weight"),
        f"{SELECTOR}.predecessor_codebook.weight is stored under a wrong name, a pack calls it {SELECTOR}.predecessor_codebook",
    ),
    (
        misname(f"{MLP_CONV}.base_kernel", f"{MLP_CONV}.base_kernel.weight"),
        f"{MLP_CONV}.base_kernel.weight is stored under a wrong name, a pack calls it {MLP_CONV}.base_kernel",
    ),
    (
        misname(f"{SELECTOR}.hidden_projection.weight", f"{SELECTOR}.hidden_projection"),
        f"{SELECTOR}.hidden_projection is stored under a wrong name, a pack calls it {SELECTOR}.hidden_projection.weight",
    ),
    (
        add(f"{SELECTOR}.successor_codebook.weight", np.zeros((32, 5), np.float32)),
        f"{SELECTOR}.successor_codebook.weight is not a tensor of such a pack",
    ),
    (
        add(f"{CONV}.base_kernel", np.zeros((2, 16, 2), np.float32)),
        rf"{CONV}.base_kernel has shape \[2, 16, 2\], config.json makes it \[2, 2, 16\]",
    ),
    (
        add(f"{CONV}.base_kernel", np.zeros((2, 3, 16), np.float32)),
        rf"{CONV}.base_kernel has shape \[2, 3, 16\], config.json makes it \[2, 2, 16\]",
    ),
    (
        add(f"{MLP_CONV}.kernel_projection.weight", np.zeros((8, 16), np.float32)),
        rf"{MLP_CONV}.kernel_projection.weight has shape \[8, 16\], config.json makes it \[16, 16\]",
    ),
    (
        add(f"{SELECTOR}.predecessor_codebook", np.zeros((5, 32), np.float32)),
        rf"{SELECTOR}.predecessor_codebook has shape \[5, 32\], config.json makes it \[32, 5\]",
    ),
    (
        add(f"{SELECTOR}.hidden_projection.weight", np.zeros((16, 5), np.float32)),
        rf"{SELECTOR}.hidden_projection.weight has shape \[16, 5\], config.json makes it \[5, 16\]",
    ),
]


@pytest.mark.parametrize(("edit", "message"), BAD_SECOND, ids=[message for _, message in BAD_SECOND])
def test_refused_of_generation_2_by_file_and_tensor(write_pack: Any, edit: Callable[[Any], None], message: str) -> None:
    directory, _, _ = write_pack(SECOND, edit=edit)
    with pytest.raises(Refusal, match=rf"{directory / 'model.safetensors'}: {message}.*; \w+"):
        open_pack(directory)


def test_tensors_of_generation_2_in_a_pack_that_says_generation_1_are_refused(write_pack: Any) -> None:
    directory, _, tensors = write_pack(SECOND)
    (directory / "config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(Refusal, match=rf"{SELECTOR}.hidden_projection.weight is not a tensor of such a pack"):
        open_pack(directory)
    assert len(tensors) == 15 * 2 + 6


@pytest.mark.parametrize("num_bytes", [0, 7, 100, -1])
def test_file_that_was_cut_short_is_refused(write_pack: Any, num_bytes: int) -> None:
    directory, _, _ = write_pack()
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:num_bytes])
    with pytest.raises(Refusal, match="is not a whole safetensors file"):
        open_pack(directory)


def test_directory_without_tensors_is_refused(write_pack: Any) -> None:
    directory, _, _ = write_pack()
    (directory / "model.safetensors").unlink()
    with pytest.raises(Refusal, match=r"model\.safetensors: cannot be read"):
        open_pack(directory)


def test_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"config\.json: cannot be read"):
        open_pack(tmp_path / "nowhere")


def test_pack_of_another_width_than_its_config_says_is_refused(write_pack: Any) -> None:
    directory, _, _ = write_pack({"intermediate_size": 24}, edit=lambda tensors: tensors.update(random_tensors(CONFIG, 0)))
    with pytest.raises(Refusal, match=r"mlp.*_proj.weight has shape \[.*20.*\], config.json makes it \[.*24.*\]"):
        open_pack(directory)


def test_weights_are_widened_without_a_changed_bit(write_pack: Any) -> None:
    directory, _, tensors = write_pack()
    pack = open_pack(directory)
    layer = pack.layers[1]

    def stored(*names: str) -> np.ndarray:
        return np.concatenate([tensors[f"layers.1.{name}.weight"] for name in names])

    assert np.array_equal(layer.qkv.T, stored("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"))
    inner = layer.gate_up.transpose(0, 1, 3, 2).reshape(-1, layer.gate_up.shape[2])
    assert np.array_equal(inner, stored("mlp.gate_proj", "mlp.up_proj"))
    assert np.array_equal(layer.output.T, stored("self_attn.o_proj"))
    assert np.array_equal(layer.down.reshape(-1, layer.down.shape[2]).T, stored("mlp.down_proj"))
    assert np.array_equal(layer.mlp_norm, stored("post_attention_layernorm"))
    assert np.array_equal(pack.fc.T, tensors["fc.weight"])
    assert {pack.fc.dtype, layer.qkv.dtype, layer.key_norm.dtype} == {np.dtype(np.float32)}


def test_weights_of_generation_2_are_widened_without_a_changed_bit(write_pack: Any) -> None:
    directory, _, tensors = write_pack(SECOND)
    pack = open_pack(directory)
    conv, selector = pack.layers[1].mlp_conv, pack.selector
    assert conv is not None
    assert selector is not None
    assert np.array_equal(conv.kernels.reshape(2, 2, 16), tensors[f"{MLP_CONV}.base_kernel"])
    assert np.array_equal(conv.projection.T, tensors[f"{MLP_CONV}.kernel_projection.weight"])
    assert np.array_equal(selector.predecessors, tensors[f"{SELECTOR}.predecessor_codebook"])
    assert np.array_equal(selector.successors, tensors[f"{SELECTOR}.successor_codebook"])
    assert np.array_equal(selector.gate.T, tensors[f"{SELECTOR}.hidden_projection.weight"])
    assert (selector.top_k, conv.kernels.dtype, selector.gate.dtype) == (4, np.dtype(np.float32), np.dtype(np.float32))


def test_each_file_is_opened_once(write_pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, _, _ = write_pack()
    opened = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path.name) or real(path))  # type: ignore[func-returns-value]
    open_pack(directory)
    assert opened == ["config.json", "model.safetensors"]
