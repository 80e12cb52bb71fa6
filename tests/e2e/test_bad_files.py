"""Damaged files given to the running engine: one line that names the file and exit code 2, or the reply of an undamaged one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_forward_serve import ENGINE, PATIENCE_S, ROOT, Engine
from tests.forward_serve.serving.golden import unpack_container, write_pack
from tests.forward_serve.test_bad_files import Damage, Kind

pytestmark = pytest.mark.e2e

ASKED: dict[str, Any] = {"prompt": [10, 20, 30, 10, 20, 30, 10, 20], "max_tokens": 12, "temperature": 0, "ignore_eos": True}
HEADER, MIDDLE = 0.0, 0.6  # places in a file


@pytest.mark.parametrize(
    ("room", "damage"),
    [
        ("tiny", Damage("model.q4nx", Kind.CUT, MIDDLE, 1)),
        ("tiny", Damage("model.q4nx", Kind.ZEROED, HEADER, 64)),
        ("tiny", Damage("model.q4nx", Kind.GROWN, HEADER, 1)),
        ("tiny", Damage("config.json", Kind.FLIPPED, HEADER, 1)),
        ("tiny", Damage("tokenizer.json", Kind.CUT, MIDDLE, 1)),
        ("pack", Damage("model.safetensors", Kind.CUT, MIDDLE, 1)),
        ("pack", Damage("model.safetensors", Kind.DOUBLED, MIDDLE, 4096)),
        ("pack", Damage("config.json", Kind.ZEROED, MIDDLE, 8)),
    ],
    ids=str,
)
def test_a_damaged_file_is_refused_in_one_line_that_names_it(tmp_path: Path, room: str, damage: Damage) -> None:
    directory = made(tmp_path)
    damage.apply(directory / room)
    arguments = ["-m", str(directory / "tiny"), "--spec-draft", str(directory / "pack"), "-p", "0"]
    ended = subprocess.run([*ENGINE, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    (line,) = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert str(directory / room / damage.file) in line


def test_a_pack_with_wrong_weights_is_served_and_changes_no_token(tmp_path: Path) -> None:
    directory = made(tmp_path)
    with Engine("-m", str(directory / "tiny"), "-p", "0") as plain:
        plain.ready()
        want = plain.ask(**ASKED)["choices"]
    Damage("model.safetensors", Kind.ZEROED, 0.5, 100_000).apply(directory / "pack")
    with Engine("-m", str(directory / "tiny"), "--spec-draft", str(directory / "pack"), "-p", "0") as drafting:
        drafting.ready()
        answer = drafting.ask(**ASKED, return_spec=True)
    assert answer["choices"] == want
    assert answer["usage"]["spec"]["drafted"] > 0


def made(tmp_path: Path) -> Path:
    unpack_container(tmp_path / "tiny")
    write_pack(tmp_path / "pack", seed=10)
    return tmp_path
