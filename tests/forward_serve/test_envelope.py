"""An envelope holds named tensors that fill its data exactly, or is refused by file, tensor, value and rule."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forward_serve.container import open_container
from forward_serve.envelope import read_envelope
from forward_serve.errors import Refusal
from tests.forward_serve.containers import EMBEDDING, LM_HEAD, QUERY, Header, assert_refused, join, rewrite, set_entry


def test_tensors_keep_their_dtype_shape_and_bytes_wherever_they_stand(tmp_path: Path) -> None:
    codes, words = bytes(range(6)), b"\x00\x3f\x80\x3f"
    header: Header = {
        "second": {"dtype": "I8", "shape": [2, 3], "data_offsets": [4, 10]},
        "first": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]},
        "empty": {"dtype": "I8", "shape": [0, 7], "data_offsets": [10, 10]},
        "__metadata__": {"made": "by hand"},
    }
    path = tmp_path / "some.q4nx"
    path.write_bytes(join(header, words + codes))
    got = {name: (tensor.dtype, tensor.shape, bytes(tensor.data)) for name, tensor in read_envelope(path).items()}
    assert got == {"second": ("I8", (2, 3), codes), "first": ("BF16", (2,), words), "empty": ("I8", (0, 7), b"")}


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
    "no dimension": (set_entry(LM_HEAD, shape=[], data_offsets=[134656, 134657]), ["134657"]),
    "a tensor over another": (set_entry(QUERY, data_offsets=[0, 40960]), [EMBEDDING, "is at 0", "no gap, overlap"]),
}


@pytest.mark.parametrize("fault", HEADER_FAULTS)
def test_a_header_is_refused_that_has(tiny: Path, fault: str) -> None:
    edit, words = HEADER_FAULTS[fault]
    rewrite(tiny, edit)
    assert_refused(tiny, "model.q4nx", *words)


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
