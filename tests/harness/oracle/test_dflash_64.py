"""The float64 drafter against what the published package did, and the parts of the format that can be worked out by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import FileFormatError
from harness.oracle.arithmetic64 import Readout, linear
from harness.oracle.dflash_64 import Context, context_of, convolution, drafted_rows, visible_keys
from harness.oracle.pack64 import Convolution64, Pack64, Selector64, read_pack
from harness.oracle.pick_64 import picked
from harness.oracle.tensors64 import Array, read_tensor_file
from tests.harness.oracle.golden import DFLASH, edit_config, write_pack

PACKS = ("first-full", "first-sliding-then-full", "second-sliding", "second-kernel-of-three-scaled")
HIDDEN, VOCAB, LAYERS = 16, 32, 5
TOLERANCE = 1e-4  # of rows of root mean square 1: the package computes in float32


@dataclasses.dataclass(frozen=True)
class Golden:
    """One golden pack with the sequence that its rounds were drafted on."""

    pack: Pack64
    streams: Array  # [layers, n, H] of the committed rows
    anchors: dict[int, int]  # place -> token
    arrays: dict[str, Any]
    embedding: Array
    readout: Readout

    @classmethod
    def load(cls, name: str) -> Golden:
        pack = read_pack(DFLASH / name)
        target = read_tensor_file(DFLASH / "target" / "model.safetensors")
        with np.load(DFLASH / name / "rounds.npz") as loaded:
            arrays = dict(loaded)
        rows = [arrays["prompt_taps"]]
        rows += [taps[: accepted + 1] for taps, accepted in zip(arrays["pass_taps"], arrays["accepted"], strict=True)]
        taps = np.concatenate(rows).astype(np.float64)  # [n, T, H]
        streams = np.full((LAYERS, len(taps), HIDDEN), np.nan)
        for at, layer in enumerate(pack.taps):
            streams[layer] = taps[:, at]
        anchors = dict(zip(arrays["starts"].tolist(), arrays["anchors"].tolist(), strict=True))
        embedding = target.bf16("model.embed_tokens.weight", VOCAB, HIDDEN)
        return cls(pack, streams, anchors, arrays, embedding, Readout(target.bf16("lm_head.weight", VOCAB, HIDDEN)))

    def rows(self, places: list[int] | None = None) -> Array:
        """The hidden rows of all rounds, or of some, drafted together."""
        wanted = places or list(self.anchors)
        sequence = [self.anchors.get(at, 0) for at in range(max(self.anchors) + 1)]
        return drafted_rows(self.pack, self.embedding, context_of(self.pack, self.streams), sequence, wanted)


@pytest.fixture(params=PACKS)
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden.load(request.param)


def test_all_rounds_of_a_golden_pack_have_the_packages_hidden_rows(golden: Golden) -> None:
    np.testing.assert_allclose(golden.rows(), golden.arrays["hidden"], atol=TOLERANCE, rtol=0)


def test_all_rounds_of_a_golden_pack_have_the_packages_drafts(golden: Golden) -> None:
    blocks = picked(golden.pack, golden.readout, VOCAB, golden.rows(), list(golden.anchors.values()))
    assert [list(block.drafts) for block in blocks] == golden.arrays["drafts"].tolist()
    assert all(lead > 0 for block in blocks for lead in block.margins)


def test_a_block_does_not_depend_on_what_is_drafted_beside_it(golden: Golden) -> None:
    together = golden.rows()
    for at, place in enumerate(golden.anchors):
        np.testing.assert_allclose(golden.rows([place])[0], together[at], atol=1e-12)


def test_rows_at_and_behind_a_place_are_not_seen_from_it(golden: Golden) -> None:
    place = next(iter(golden.anchors))
    changed = dataclasses.replace(
        golden, streams=golden.streams + np.where(np.arange(golden.streams.shape[1]) < place, 0, 9)[:, None]
    )
    np.testing.assert_allclose(changed.rows()[0], golden.rows()[0], atol=1e-12)
    assert np.abs(changed.rows()[-1] - golden.rows()[-1]).max() > 0.1


def test_identity_settings_make_a_second_generation_pack_draft_as_the_first() -> None:
    first = Golden.load("first-full")
    layers = first.pack.layers
    base = np.zeros((2, 2, HIDDEN))
    base[:, 0] = 1
    conv = Convolution64(base, np.zeros((2 * 2 * 4, HIDDEN)))
    books = np.ones((VOCAB, 3)), np.zeros((VOCAB, 3)), np.ones((3, HIDDEN))
    second = dataclasses.replace(
        first.pack,
        layers=tuple(dataclasses.replace(layer, attention_conv=conv, mlp_conv=conv) for layer in layers),
        selector=Selector64(*books, top_k=VOCAB),
    )
    got, want = dataclasses.replace(first, pack=second).rows(), first.rows()
    assert np.array_equal(got, want)
    anchors = list(first.anchors.values())
    left, right = (picked(pack, first.readout, VOCAB, want, anchors) for pack in (second, first.pack))
    assert [block.drafts for block in left] == [block.drafts for block in right]


def test_the_convolution_of_the_formats_page_by_hand() -> None:
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    base = np.array([[1.0, 1.0], [0.5, -0.5]])
    deltas = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])  # one group: the same for both channels
    kernels = base + deltas[:, :, None]
    np.testing.assert_allclose(convolution(kernels, rows), [[1.1, 2.2], [4.8, 5.0], [10.8, 9.4]])


@pytest.mark.parametrize(
    ("causal", "window", "want"),
    [
        (False, None, [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1]]),
        (True, None, [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
        (False, 3, [[0, 1, 1, 1, 1], [0, 0, 1, 1, 1]]),
        (True, 2, [[0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]),
        (False, 1, [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]),
    ],
)
def test_slots_3_and_4_see_positions_0_to_4_as_the_layer_says(causal: bool, window: int | None, want: list[list[int]]) -> None:
    layer = dataclasses.replace(Golden.load("first-full").pack.layers[0], is_causal=causal, window=window)
    assert visible_keys(layer, np.array([3, 4]), np.arange(5)).astype(int).tolist() == want


@settings(max_examples=8, deadline=None)
@given(shift=st.integers(1, 50))
def test_a_shift_of_all_positions_changes_no_row(shift: int) -> None:
    golden = Golden.load("second-sliding")
    place = max(golden.anchors)
    context = context_of(golden.pack, golden.streams[:, :place])
    layers = len(golden.pack.layers)
    blank = np.zeros((shift, *context.keys[0].shape[1:]))
    moved = Context(
        tuple(np.concatenate([blank, keys]) for keys in _moved(golden, shift, place)),
        tuple(np.concatenate([blank, context.values[at]]) for at in range(layers)),
    )
    sequence = [0] * (shift + place) + [golden.anchors[place]]
    got = drafted_rows(golden.pack, golden.embedding, moved, sequence, [shift + place])
    window = golden.pack.layers[0].window
    assert window is not None and place > window  # so that the blank rows are out of sight
    np.testing.assert_allclose(got[0], golden.rows([place])[0], atol=1e-9)


def _moved(golden: Golden, shift: int, place: int) -> tuple[Array, ...]:
    """Keys of the same rows, `shift` positions later: those of a context with as many rows before it, cut off."""
    before = np.repeat(golden.streams[:, :1], shift, axis=1)
    longer = context_of(golden.pack, np.concatenate([before, golden.streams[:, :place]], axis=1))
    return tuple(keys[shift:] for keys in longer.keys)


def test_a_config_is_resolved_as_both_generations_spell_it() -> None:
    first, second = read_pack(DFLASH / "first-sliding-then-full"), read_pack(DFLASH / "second-sliding")
    assert [(layer.is_causal, layer.window) for layer in first.layers] == [(True, 7), (False, None)]
    assert {(layer.is_causal, layer.window) for layer in second.layers} == {(False, 9)}
    assert (first.block_size, second.block_size, first.theta, second.theta) == (6, 6, 20000.0, 20000.0)
    assert (first.selector, second.selector.top_k if second.selector else None) == (None, 4)
    scaled = read_pack(DFLASH / "second-kernel-of-three-scaled")
    assert (scaled.multiplier, scaled.softcap, scaled.embedding_scale, second.softcap) == (0.5, 3.0, 2.0, None)


def test_a_softcap_of_zero_is_none_and_the_inner_key_wins(tmp_path: Path) -> None:
    inner = {"mask_token_id": 250, "target_layer_ids": [0], "final_logit_softcapping": 0, "block_size": 7}
    got = read_pack(write_pack(tmp_path / "pack", 1, dflash_config=inner, block_size=4))
    assert (got.softcap, got.block_size) == (None, 7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["EagleModel"]}, "architectures EagleModel; the oracle knows DFlashDraftModel, DFlash2DraftModel"),
        ({"attention_bias": True}, "attention_bias or rope_scaling is set"),
        ({"rope_scaling": {"type": "yarn"}}, "attention_bias or rope_scaling is set"),
        ({"dflash_config": {"mask_token_id": 2}}, "key target_layer_ids is missing"),
        ({"hidden_size": 128}, r"fc.weight is BF16 \[256, 256\], the config asks for BF16 \[128, 128\]"),
    ],
)
def test_a_pack_that_the_oracle_does_not_know_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    directory = write_pack(tmp_path / "pack", 1)
    edit_config(directory, **changes)
    with pytest.raises(FileFormatError, match=message):
        read_pack(directory)


def test_context_rows_are_taps_in_listed_order_through_fc_and_normed() -> None:
    golden = Golden.load("first-full")
    assert golden.pack.taps == (1, 0, 3)
    taps = np.concatenate([golden.streams[1], golden.streams[0], golden.streams[3]], axis=1)
    mapped = linear(taps, golden.pack.fc)
    rows = mapped / np.sqrt((mapped**2).mean(1, keepdims=True) + golden.pack.eps) * golden.pack.hidden_norm
    heads = linear(rows, golden.pack.layers[1].v).reshape(len(rows), golden.pack.num_kv_heads, -1)
    np.testing.assert_allclose(context_of(golden.pack, golden.streams).values[1], heads, atol=1e-12)
