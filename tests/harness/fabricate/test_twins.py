"""Twins: what changes, what is shared, and names that mean nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.fabricate.pack import read_pack
from harness.fabricate.pack_twins import pack_twin
from harness.fabricate.twins import twin
from harness.records.fixture import Fixture


def config(directory: Path, file: str = "config.json") -> dict[str, Any]:
    content: dict[str, Any] = json.loads((directory / file).read_bytes())
    return content


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the keys that differ with their new values; None for one that is gone."""
    return {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def test_the_bare_names_are_the_originals(small: Fixture) -> None:
    assert twin(small, "small") == Path(small.model)
    assert pack_twin(small, "mixed") == Path(small.packs["mixed"])


@pytest.mark.parametrize(
    ("name", "in_config", "in_tokenizer_config"),
    [
        ("small+context=28", {"max_position_embeddings": 28}, {"model_max_length": 28}),
        ("small+eos=5.17", {"eos_token_id": [5, 17]}, {"eos_token_id": [5, 17]}),
        ("small+eos=5", {"eos_token_id": [5]}, {"eos_token_id": [5]}),
        ("small+vocab=320", {"vocab_size": 320}, {}),
        (
            "small+context=28+eos=5",
            {"max_position_embeddings": 28, "eos_token_id": [5]},
            {"model_max_length": 28, "eos_token_id": [5]},
        ),
    ],
)
def test_a_model_twin_changes_its_config_and_shares_its_weights(
    small: Fixture, name: str, in_config: dict[str, Any], in_tokenizer_config: dict[str, Any]
) -> None:
    original, got = Path(small.model), twin(small, name)
    assert changes(config(original), config(got)) == in_config
    file = "tokenizer_config.json"
    assert changes(config(original, file), config(got, file)) == in_tokenizer_config
    assert (got / "model.q4nx").samefile(original / "model.q4nx")
    assert {path.name for path in got.iterdir()} == {path.name for path in original.iterdir()}


def test_a_truncated_twin_ends_inside_the_data_and_leaves_the_original_whole(small: Fixture) -> None:
    whole = (Path(small.model) / "model.q4nx").read_bytes()
    cut = (twin(small, "small+truncated") / "model.q4nx").read_bytes()
    assert len(cut) == len(whole) * 3 // 4
    assert whole.startswith(cut)
    assert len(cut) > 8 + int.from_bytes(whole[:8], "little")


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("mixed+hidden=512", {"hidden_size": 512}),
        ("mixed+block=1", {"block_size": 1}),
        ("mixed+mask=288", {"dflash_config": {"mask_token_id": 288, "target_layer_ids": [0, 1]}}),
        ("mixed+tap=9", {"dflash_config": {"mask_token_id": 250, "target_layer_ids": [0, 9]}}),
        ("mixed+notaps", {"dflash_config": {"mask_token_id": 250}}),
        ("mixed+sink", {"attention_sink_bias": True}),
    ],
)
def test_a_pack_twin_changes_one_key_and_shares_its_weights(small: Fixture, name: str, want: dict[str, Any]) -> None:
    original, got = Path(small.packs["mixed"]), pack_twin(small, name)
    assert changes(config(original), config(got)) == want
    assert (got / "model.safetensors").samefile(original / "model.safetensors")


def test_a_twin_is_made_once(small: Fixture) -> None:
    first = twin(small, "small+context=30")
    made_at = (first / "config.json").stat().st_mtime_ns
    assert twin(small, "small+context=30") == first
    assert (first / "config.json").stat().st_mtime_ns == made_at


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("small+size=3", "'small\\+size=3': no twin has the suffix 'size=3'; use context=, eos=, gguf, hf, truncated, vocab="),
        ("small+context", "no twin has the suffix 'context'"),
        ("small+truncated=3", "no twin has the suffix 'truncated=3'"),
        ("small+", "no twin has the suffix ''"),
        ("small+context=many", "'many' does not fit; write context=28"),
        ("small+context=1.2", "'1.2' does not fit; write context=28"),
        ("small+eos=", "'' does not fit; write eos=5.17"),
        ("large+context=3", "'large' was not fabricated; use small"),
    ],
)
def test_a_model_name_that_means_nothing_is_one_clear_error(small: Fixture, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        twin(small, name)


def test_a_pack_name_that_means_nothing_is_one_clear_error(small: Fixture) -> None:
    with pytest.raises(UsageError, match="no twin has the suffix 'context=3'; use block=, codebook, gen1, gen1tensors, group="):
        pack_twin(small, "mixed+context=3")
    with pytest.raises(UsageError, match="'never' was not fabricated; use mixed or mixed2"):
        pack_twin(small, "never")


def test_a_cleaned_cache_is_named_when_a_twin_is_asked_for(small: Fixture, tmp_path: Path) -> None:
    gone = Fixture(small.recipe, str(tmp_path / "model"), {}, small.streams, 256, {})
    with pytest.raises(UsageError, match="is gone from the cache; fabricate the recipe again"):
        twin(gone, "small+context=28")


def second(**changes: int | None) -> dict[str, Any]:
    """Return the whole dflash_config of the small recipe's generation 2 pack with changes; None takes a key out."""
    config = {
        "block_size": 5,
        "conv_group_size": 64,
        "conv_kernel_size": 2,
        "mask_token_id": 250,
        "selector_rank": 4,
        "selector_top_k": 5,
        "target_layer_ids": [0, 1],
    }
    return {key: value for key, value in (config | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("mixed2+notopk", {"dflash_config": second(selector_top_k=None)}),
        ("mixed2+topk=400", {"dflash_config": second(selector_top_k=400)}),
        ("mixed2+group=7", {"dflash_config": second(conv_group_size=7)}),
        ("mixed2+rank=3", {"dflash_config": second(selector_rank=3)}),
        ("mixed2+block=1", {"dflash_config": second(block_size=1)}),
        ("mixed2+sink", {"attention_sink_bias": True}),
        ("mixed2+gen1", {"architectures": ["DFlashDraftModel"]}),
    ],
)
def test_a_twin_of_generation_two_changes_one_key_where_it_stands(small: Fixture, name: str, want: dict[str, Any]) -> None:
    original, got = Path(small.packs["mixed2"]), pack_twin(small, name)
    assert changes(config(original), config(got)) == want
    assert (got / "model.safetensors").samefile(original / "model.safetensors")


def test_a_codebook_twin_renames_one_tensor_and_keeps_the_bytes(small: Fixture) -> None:
    original, got = (read_pack(path) for path in (Path(small.packs["mixed2"]), pack_twin(small, "mixed2+codebook")))
    name = "candidate_selector.predecessor_codebook"
    assert original.keys() ^ got.keys() == {name, f"{name}.weight"}
    assert (original[name] == got[f"{name}.weight"]).all()
    assert changes(config(Path(small.packs["mixed2"])), config(pack_twin(small, "mixed2+codebook"))) == {}


def test_a_twin_with_the_tensors_of_generation_one_has_those_of_its_original(small: Fixture) -> None:
    got = read_pack(pack_twin(small, "mixed2+gen1tensors"))
    assert got.keys() == read_pack(Path(small.packs["mixed"])).keys()


@pytest.mark.parametrize("suffix", ["notopk", "topk=3", "group=7", "rank=3", "gen1", "codebook", "gen1tensors"])
def test_a_suffix_of_generation_two_on_a_pack_of_generation_one_is_one_clear_error(small: Fixture, suffix: str) -> None:
    with pytest.raises(UsageError, match="changes what only generation 2 has; 'mixed' is not of it"):
        pack_twin(small, f"mixed+{suffix}")
