"""Containers open to the recorded weights, or are refused by file, tensor, value and rule."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forward_serve.container import Qwen3Config, decode_q4_1, open_container
from forward_serve.errors import Refusal

GOLDEN = Path(__file__).parents[1] / "golden" / "q4nx"
RECORDED = json.loads((GOLDEN / "golden.json").read_text())
LM_HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"
QUERY_NORM = "model.layers.0.self_attn.q_norm.weight"
QUERY = "model.layers.1.self_attn.q_proj.weight"

Header = dict[str, Any]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A copy of the golden container, to open or to damage."""
    return unpack_tiny(tmp_path / "tiny")


def unpack_tiny(directory: Path) -> Path:
    shutil.copytree(GOLDEN / "tiny-qwen3", directory)
    (directory / "model.q4nx").write_bytes(gzip.decompress((directory / "model.q4nx.gz").read_bytes()))
    return directory


def edit_json(path: Path, **changes: Any) -> None:
    """Set keys of a JSON file; None deletes the key."""
    value = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: item for key, item in value.items() if item is not None}))


def rewrite(directory: Path, edit: Callable[[Header], object], edit_data: Callable[[bytes], bytes] = bytes) -> None:
    """Change the safetensors header, and its data where `edit_data` says so."""
    path = directory / "model.q4nx"
    header, data = split(path.read_bytes())
    edit(header)
    path.write_bytes(join(header, edit_data(data)))


def overwrite(directory: Path, name: str, offset_bytes: int, replacement: bytes) -> None:
    """Overwrite bytes of one tensor."""
    raw = (directory / "model.q4nx").read_bytes()
    header, data = split(raw)
    start = len(raw) - len(data) + header[name]["data_offsets"][0] + offset_bytes
    (directory / "model.q4nx").write_bytes(raw[:start] + replacement + raw[start + len(replacement) :])


def split(raw: bytes) -> tuple[Header, bytes]:
    header_length = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8 : 8 + header_length]), raw[8 + header_length :]


def join(header: Header, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def bf16(value: float) -> bytes:
    return struct.pack("<f", value)[2:]


@pytest.mark.parametrize(
    ("name", "num_rows", "num_columns"),
    [("tile_q4_1.bin", 32, 256), ("random_q4_1_64x512.bin", 64, 512), ("random_q4_1_32x288.bin", 32, 288)],
)
def test_golden_tiles_decode_to_the_recorded_sha256(name: str, num_rows: int, num_columns: int) -> None:
    tiles = np.fromfile(GOLDEN / name, np.uint8).reshape(-1, 5120)
    got = decode_q4_1(tiles, num_rows, num_columns, name)
    assert got.shape == (num_rows, num_columns)
    assert hashlib.sha256(got.astype("<f4").tobytes()).hexdigest() == RECORDED[name]["dequant_f32le_sha256"]


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


@pytest.mark.parametrize(
    ("name", "chunk", "words"),
    [
        ("tile_q8_layoutA_k32r.bin", 8704, "Q8"),
        ("tile_q8_layoutB_16lane.bin", 8704, "Q8"),
        ("tile_q4k.bin", 4736, "Q4_K"),
        ("tile_q4_0_signed.bin", 5120, "tile 0 is a signed q4_0 tile"),
    ],
)
def test_golden_chunks_of_other_kinds_are_refused_by_name(tiny: Path, name: str, chunk: int, words: str) -> None:
    tail = (GOLDEN / name).read_bytes() * 8

    def put_behind(header: Header) -> None:
        header["the former lm_head"] = header.pop(LM_HEAD)
        header[LM_HEAD] = {"dtype": "I8", "shape": [8, chunk], "data_offsets": [667136, 667136 + len(tail)]}

    rewrite(tiny, put_behind, lambda data: data + tail)
    assert_refused(tiny, "model.q4nx", LM_HEAD, words)


def assert_refused(path: Path, *words: str) -> None:
    """Expect a one-line Refusal that holds every word."""
    with pytest.raises(Refusal) as caught:
        open_container(path)
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message


def set_entry(name: str, **changes: Any) -> Callable[[Header], object]:
    return lambda header: header[name].update(changes)


NO_BYTES = {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]}
HEADER_FAULTS: dict[str, tuple[Callable[[Header], object], list[str]]] = {
    "offsets behind the data": (set_entry(LM_HEAD, data_offsets=[7, 667137]), [LM_HEAD, "within 667136 data bytes"]),
    "offsets in the wrong order": (set_entry(LM_HEAD, data_offsets=[175616, 134656]), [LM_HEAD, "in order"]),
    "three offsets": (set_entry(LM_HEAD, data_offsets=[1, 2, 3]), [LM_HEAD, "two of them offsets"]),
    "a negative offset": (set_entry(LM_HEAD, data_offsets=[-1, 2]), [LM_HEAD, "whole numbers"]),
    "a shape of floats": (set_entry(LM_HEAD, shape=[8.0, 5120]), [LM_HEAD, "whole numbers"]),
    "a size that is not the shape's": (set_entry(EMBEDDING, shape=[256, 255]), [EMBEDDING, "131072", "130560"]),
    "an unknown dtype": (set_entry(EMBEDDING, dtype="F16"), [EMBEDDING, "F16", "BF16 and I8"]),
    "a dtype that is a list": (set_entry(EMBEDDING, dtype=["BF16"]), [EMBEDDING, "BF16 and I8"]),
    "the older codec": (set_entry(LM_HEAD, dtype="Q4NX"), [LM_HEAD, "Q4NX", "(code - zero) * scale"]),
    "a key too many": (set_entry(LM_HEAD, codec="x"), [LM_HEAD, "exactly dtype, shape and data_offsets"]),
    "an entry that is null": (lambda header: header.update({LM_HEAD: None}), [LM_HEAD, "None"]),
    "too few tiles": (set_entry(LM_HEAD, shape=[4, 10240]), [LM_HEAD, "10240", "of no known kind"]),
    "tiles in a wrong grid": (set_entry(LM_HEAD, shape=[4, 2, 5120]), [LM_HEAD, "[4, 2]", "256 x 256", "8 tiles"]),
    "no dimension": (set_entry(LM_HEAD, shape=[], data_offsets=[134656, 134657]), ["134657"]),
    "bf16 where tiles are wanted": (set_entry(LM_HEAD, dtype="BF16", shape=[4, 5120]), [LM_HEAD, "BF16", "I8 is wanted"]),
    "tiles where bf16 is wanted": (set_entry(QUERY_NORM, dtype="I8", shape=[256]), [QUERY_NORM, "I8", "BF16 is wanted"]),
    "a tensor over another": (set_entry(QUERY, data_offsets=[0, 40960]), [EMBEDDING, "is at 0", "no gap, overlap"]),
    "a missing tensor": (lambda header: header.update({"x": header.pop(QUERY_NORM)}), [QUERY_NORM, "is missing"]),
    "a tensor of no model": (lambda header: header.update(x=NO_BYTES), ["tensor x", "has no place"]),
}


@pytest.mark.parametrize("fault", HEADER_FAULTS)
def test_a_header_is_refused_that_has(tiny: Path, fault: str) -> None:
    edit, words = HEADER_FAULTS[fault]
    rewrite(tiny, edit)
    assert_refused(tiny, "model.q4nx", *words)


TENSOR_FAULTS: dict[str, tuple[str, int, bytes, list[str]]] = {
    "a NaN scale": (LM_HEAD, 3 * 5120 + 2 * (2 * 32 + 5), bf16(float("nan")), ["tile 3, row 5, group 2", "scale=nan", "finite"]),
    "an infinite scale": (LM_HEAD, 0, bf16(float("inf")), ["tile 0, row 0, group 0", "scale=inf"]),
    "a scale above 100": (QUERY, 5120, bf16(100.5), ["tile 1, row 0", "scale=100.5", "100 at most"]),
    "a scale below -100": (QUERY, 5120, bf16(-101.0), ["tile 1, row 0", "scale=-101.0", "100 at most"]),
    "an infinite min": (QUERY, 512, bf16(float("-inf")), ["tile 0, row 0", "min=-inf", "finite"]),
    "a signed q4_0 tile": (QUERY, 2 * 5120, bf16(-0.5) + bytes(1022), ["tile 2 is a signed q4_0 tile"]),
    "a NaN norm": (QUERY_NORM, 8, bf16(float("nan")), ["nan", "finite"]),
}


@pytest.mark.parametrize("fault", TENSOR_FAULTS)
def test_a_tensor_is_refused_that_holds(tiny: Path, fault: str) -> None:
    name, offset_bytes, replacement, words = TENSOR_FAULTS[fault]
    overwrite(tiny, name, offset_bytes, replacement)
    assert_refused(tiny, "model.q4nx", name, *words)


@pytest.mark.parametrize("scale", [100.0, -100.0])
def test_a_scale_of_100_and_a_negative_one_beside_mins_are_served(tiny: Path, scale: float) -> None:
    overwrite(tiny, QUERY, 0, bf16(scale))
    overwrite(tiny, QUERY, 1024, b"\x01")
    overwrite(tiny, QUERY, 512, bf16(0.5))
    assert open_container(tiny).weights.layers[1].qkv[0, 0] == scale + 0.5


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


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "header length 0 in a file of 0 bytes"),
        (b"\x01\x00\x00", "in a file of 3 bytes"),
        (struct.pack("<Q", 9) + b"{}", "header length 9 in a file of 10 bytes"),
        (struct.pack("<Q", 0), "not JSON"),
        (struct.pack("<Q", 2) + b"[]", "JSON list"),
        (struct.pack("<Q", 14) + b'{"a":1, "a":2}', "a stands twice"),
        (struct.pack("<Q", 2) + b"{}x", "the end of the file is at 1, but the data before it ends at 0"),
    ],
)
def test_an_envelope_is_refused_that_is_damaged(tiny: Path, raw: bytes, words: str) -> None:
    (tiny / "model.q4nx").write_bytes(raw)
    assert_refused(tiny, "model.q4nx", words)


@pytest.mark.parametrize("num_bytes", [7, 8, 2000, 2536, 134656, 669671])
def test_a_container_cut_at_any_length_is_refused(tiny: Path, num_bytes: int) -> None:
    raw = (tiny / "model.q4nx").read_bytes()
    (tiny / "model.q4nx").write_bytes(raw[:num_bytes])
    assert_refused(tiny, "model.q4nx")


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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 2535), replacement=st.binary(min_size=1, max_size=3))
def test_a_header_with_bytes_overwritten_opens_or_is_refused_and_never_breaks(
    tiny: Path, position: int, replacement: bytes
) -> None:
    path = tiny / "model.q4nx"
    raw = path.read_bytes()
    path.write_bytes(raw[:position] + replacement + raw[position + len(replacement) :])
    try:
        assert open_container(tiny).config.vocab_size == 256
    except Refusal as error:
        assert str(path) in str(error)
    finally:
        path.write_bytes(raw)
