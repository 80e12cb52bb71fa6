"""The golden container, to open or to damage: its files unpacked, its header and bytes edited. For tests only."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forward_serve.container import open_container
from forward_serve.errors import Refusal

GOLDEN = Path(__file__).parents[1] / "golden" / "q4nx"
LM_HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"
QUERY_NORM = "model.layers.0.self_attn.q_norm.weight"
QUERY = "model.layers.1.self_attn.q_proj.weight"

Header = dict[str, Any]


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


def assert_refused(path: Path, *words: str) -> None:
    """Expect a one-line Refusal that holds every word."""
    with pytest.raises(Refusal) as caught:
        open_container(path)
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message


def set_entry(name: str, **changes: Any) -> Callable[[Header], object]:
    return lambda header: header[name].update(changes)
