"""Descriptions that extend each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import FileFormatError
from harness.subjects.description import load_description
from harness.subjects.inheritance import joined, read_extended


def test_tables_are_joined_key_by_key_and_everything_else_is_replaced() -> None:
    base = {"a": 1, "t": {"x": [1], "y": {"z": 1}}, "l": [1, 2]}
    assert joined(base, {"t": {"x": [2], "y": {"w": 2}}, "l": [3]}) == {
        "a": 1,
        "t": {"x": [2], "y": {"z": 1, "w": 2}},
        "l": [3],
    }


def test_a_file_may_extend_one_that_extends_another(tmp_path: Path) -> None:
    for name, text in (("a", "x = 1\ny = 1\nz = 1"), ("b", "extends = 'a'\ny = 2\nz = 2"), ("c", "extends = 'b'\nz = 3")):
        (tmp_path / name).write_text(text)
    assert read_extended(tmp_path / "c", lambda name: tmp_path / name) == {"x": 1, "y": 2, "z": 3}


def test_files_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("extends = 'a'")
    with pytest.raises(FileFormatError, match="one of them extends itself"):
        read_extended(tmp_path / "a", lambda name: tmp_path / name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends = 5", "5 is no name"),
        ("extends = 'nobody'", "nobody: no such subject"),
        ("extends = 'gone.toml'", "cannot be read"),
    ],
)
def test_what_cannot_be_extended_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        load_description(path)


def test_the_binary_s_description_is_the_wheel_s_with_another_command() -> None:
    wheel, binary = load_description("llama-server"), load_description("llama-server-binary")
    assert binary.launch.command[0] == "{program}"
    assert (binary.arms, binary.counts, binary.dialect, binary.known_faults) == (
        wheel.arms,
        wheel.counts,
        wheel.dialect,
        wheel.known_faults,
    )
    assert (wheel.requires.programs, binary.requires.programs) == ((), ("llama-server",))


def test_the_defaults_of_llama_server_are_its_description_without_what_makes_requests_equal_to_the_bit() -> None:
    exact, defaults = load_description("llama-server"), load_description("llama-server-defaults")
    assert (bool(exact.launch.bit_comparable), defaults.launch.bit_comparable) == (True, ())
    words = [word for arm in defaults.arms.values() for word in (*defaults.launch.command, *arm.flags)]
    assert not {"--flash-attn", "--cache-type-k", "--cache-type-v", "--spec-draft-type-k", "--spec-draft-type-v"} & set(words)
    assert list(defaults.arms) == list(exact.arms)
    assert (defaults.counts, defaults.dialect, defaults.known_faults) == (exact.counts, exact.dialect, exact.known_faults)
