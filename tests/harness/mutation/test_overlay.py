from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.mutation.overlay import Source, make_overlay, snapshot, tree_hash


def tree(root: Path) -> Source:
    for file, text in {"p/__init__.py": "", "p/sub/m.py": "x = 1\r\n", "tests/t.py": "y", "top.toml": "z"}.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(text.encode())
    (root / "p" / "__pycache__").mkdir()
    (root / "p" / "__pycache__" / "m.cpython-311.pyc").write_bytes(b"stale")
    return Source(root, ("p",), ("tests", "top.toml"))


def names(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_an_overlay_holds_the_packages_with_the_mutated_text_and_no_bytecode(tmp_path: Path) -> None:
    source = tree(tmp_path / "tree")
    root = make_overlay(source, {"p/sub/m.py": "x = 2\n", "p/new.py": "n"}, tmp_path / "overlay")
    assert names(root) == ["p/__init__.py", "p/new.py", "p/sub/m.py"]
    assert (root / "p/sub/m.py").read_bytes() == b"x = 2\n"


def test_the_tree_that_an_overlay_is_made_of_is_not_written(tmp_path: Path) -> None:
    source = tree(tmp_path / "tree")
    before = tree_hash(source.root, source.names)
    root = make_overlay(source, {"p/sub/m.py": "x = 2\n"}, tmp_path / "overlay")
    assert tree_hash(source.root, source.names) == before
    assert tree_hash(root, source.packages) != tree_hash(source.root, source.packages)
    assert (source.root / "p/__init__.py").stat().st_nlink == 1  # a copy, not a link that a subject could write through


def test_tests_are_copied_where_they_are_asked_for(tmp_path: Path) -> None:
    root = make_overlay(tree(tmp_path / "tree"), {}, tmp_path / "overlay", with_tests=True)
    assert names(root) == ["p/__init__.py", "p/sub/m.py", "tests/t.py", "top.toml"]


def test_a_snapshot_is_equal_and_stays_when_the_tree_is_edited(tmp_path: Path) -> None:
    source = tree(tmp_path / "tree")
    taken = snapshot(source, tmp_path / "snapshot")
    before = tree_hash(source.root, source.names)
    assert tree_hash(taken.root, taken.names) == before
    (source.root / "p/sub/m.py").write_text("edited")
    assert taken.read("p/sub/m.py") == "x = 1\r\n"
    assert tree_hash(source.root, source.names) != before


@pytest.mark.parametrize("change", ["rename", "add", "content", "move a byte"])
def test_the_hash_sees_names_and_bytes_and_not_bytecode(tmp_path: Path, change: str) -> None:
    source = tree(tmp_path / "tree")
    before = tree_hash(source.root, source.names)
    (source.root / "p/__pycache__/m.cpython-311.pyc").write_bytes(b"other")
    assert tree_hash(source.root, source.names) == before
    if change == "rename":
        (source.root / "tests/t.py").rename(source.root / "tests/u.py")
    elif change == "add":
        (source.root / "tests/empty.py").touch()
    elif change == "content":
        (source.root / "top.toml").write_text("Z")
    else:
        (source.root / "tests/t.py").write_text("")
        (source.root / "top.toml").write_text("yz")
    assert tree_hash(source.root, source.names) != before


def test_only_the_packages_can_be_read_for_an_edit(tmp_path: Path) -> None:
    source = tree(tmp_path / "tree")
    assert source.read("p/sub/m.py") == "x = 1\r\n"
    assert (source.read("tests/t.py"), source.read("p/none.py"), source.read("p")) == (None, None, None)


def test_a_package_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        make_overlay(Source(tmp_path, ("gone",)), {}, tmp_path / "overlay")
