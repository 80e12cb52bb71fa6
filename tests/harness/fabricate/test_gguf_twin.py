"""The GGUF twin, read back with the gguf package: the decoded weights bit for bit, and a tokenizer that llama.cpp takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import UsageError
from harness.fabricate.decoded import decoded, shape_of
from harness.fabricate.gguf_twin import GGUF_FILE, gguf_bytes, tensor_name
from harness.fabricate.tokenizer import vocabulary
from harness.fabricate.twins import is_container, twin, without_format
from harness.records.fixture import Fixture

gguf = pytest.importorskip("gguf", reason="the extra `llama` is not installed")


def read(path: Path) -> Any:
    return gguf.GGUFReader(path)


def value(reader: Any, key: str) -> Any:
    return reader.fields[key].contents()


def test_every_tensor_is_the_decoded_one_in_float32_cut_to_the_tokenizer_s_ids(small: Fixture) -> None:
    folder = twin(small, "small+gguf")
    shape = shape_of(json.loads((folder / "config.json").read_bytes()))
    want = {tensor_name(name): tensor for name, tensor in decoded(Path(small.model), shape).items()}
    got = {tensor.name: np.asarray(tensor.data) for tensor in read(folder / GGUF_FILE).tensors}
    assert got.keys() == want.keys()
    assert {name for name in got if got[name].tobytes() != want[name].tobytes()} == set()
    assert {tensor.dtype for tensor in got.values()} == {np.dtype(np.float32)}
    assert (got["output.weight"].shape, got["token_embd.weight"].shape) == ((256, 256), (256, 256))


def test_the_model_is_a_qwen3_of_the_container_s_dimensions(small: Fixture) -> None:
    reader = read(twin(small, "small+context=40+gguf") / GGUF_FILE)
    assert value(reader, "general.architecture") == "qwen3"
    names = ("context_length", "block_count", "embedding_length", "feed_forward_length", "attention.head_count")
    assert [value(reader, f"qwen3.{name}") for name in names] == [40, 3, 256, 256, 2]
    names = ("attention.head_count_kv", "attention.key_length", "rope.freq_base", "attention.layer_norm_rms_epsilon")
    assert [value(reader, f"qwen3.{name}") for name in names] == [1, 128, 1e6, pytest.approx(1e-6)]


def test_the_tokenizer_has_the_container_s_ids_and_one_merge_that_no_text_uses(small: Fixture) -> None:
    reader = read(twin(small, "small+gguf") / GGUF_FILE)
    assert value(reader, "tokenizer.ggml.tokens") == list(vocabulary())
    assert (value(reader, "tokenizer.ggml.model"), value(reader, "tokenizer.ggml.pre")) == ("gpt2", "qwen2")
    (merge,) = value(reader, "tokenizer.ggml.merges")
    assert merge.split(" ") == [chr(0xF8), chr(0xF9)]  # as bytes: in no UTF-8 text


def test_end_tokens_keep_their_order_and_are_shown_as_nothing(small: Fixture) -> None:
    reader = read(twin(small, "small+eos=93.9+gguf") / GGUF_FILE)
    assert [value(reader, f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")] == [93, 9]
    kinds = value(reader, "tokenizer.ggml.token_type")
    assert (kinds[93], kinds[9], kinds[10], kinds[186]) == (
        gguf.TokenType.CONTROL,
        gguf.TokenType.CONTROL,
        gguf.TokenType.NORMAL,
        gguf.TokenType.USER_DEFINED,
    )


def test_more_end_tokens_than_the_format_names_are_refused(small: Fixture) -> None:
    config = json.loads((Path(small.model) / "config.json").read_bytes())
    with pytest.raises(UsageError, match=r"eos_token_id=\[1, 2, 3, 4\]: GGUF names 3 end tokens at most"):
        gguf_bytes(Path(small.model), {**config, "eos_token_id": [1, 2, 3, 4]})


def test_a_container_that_is_not_as_its_config_says_has_no_twin(small: Fixture) -> None:
    with pytest.raises(UsageError, match="only a sound container has twins|has the shape|missing or unknown"):
        twin(small, "small+vocab=320+gguf")


def test_a_format_comes_last(small: Fixture) -> None:
    with pytest.raises(UsageError, match="'gguf' is a format; write it last"):
        twin(small, "small+gguf+context=40")


def test_names_in_another_format_lead_back_to_their_container() -> None:
    assert [without_format(name) for name in ("tiny", "tiny+gguf", "tiny+context=36+gguf", "tiny-draft+hf")] == [
        "tiny",
        "tiny",
        "tiny+context=36",
        "tiny-draft",
    ]


def test_a_model_s_name_is_told_from_a_pack_s(small: Fixture) -> None:
    names = ("small", "small+gguf", "small-draft+gguf", "mixed", "small-other")
    assert [is_container(small, name) for name in names] == [True, True, True, False, False]
