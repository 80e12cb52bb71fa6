from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.mutation.selection import by_killer, by_lines, by_name, read_diff, touched_lines
from tests.harness.mutation import toy
from tests.harness.mutation.toy import mutant

DOUBLE = mutant("return str(number + number)", "return str(number)", "same-reply", name="double")  # line 11
SELDOM = mutant("return str(number * 2)", "return str(3)", "wide", "same-reply", name="seldom")  # line 16
MUTANTS = (DOUBLE, SELDOM)


def ids(mutants: tuple[object, ...]) -> list[str]:
    return [mutant.id for mutant in mutants]  # type: ignore[attr-defined]


def test_mutants_are_selected_by_name_in_the_order_of_the_catalogue() -> None:
    assert ids(by_name(MUTANTS, ["seldom", "double"])) == ["double", "seldom"]
    with pytest.raises(UsageError, match="--only duoble: no such mutant; did you mean double"):
        by_name(MUTANTS, ["duoble"])


def test_mutants_are_selected_by_killer() -> None:
    assert ids(by_killer(MUTANTS, ["wide"])) == ["seldom"]
    with pytest.raises(UsageError, match="--check exact-counts: the killer of no mutant; use one of same-reply, wide"):
        by_killer(MUTANTS, ["exact-counts"])


@pytest.mark.parametrize(
    ("touched", "want"),
    [
        ({"toy/engine.py": [range(11, 12)]}, ["double"]),
        ({"toy/engine.py": [range(1, 11)]}, []),
        ({"toy/engine.py": [range(12, 16)]}, []),
        ({"toy/engine.py": [range(11, 17)]}, ["double", "seldom"]),
        ({"toy/engine.py": [range(1, 2), range(16, 30)]}, ["seldom"]),
        ({"toy/other.py": [range(1, 99)]}, []),
        ({}, []),
    ],
)
def test_mutants_are_selected_by_touched_lines(tmp_path: Path, touched: dict[str, list[range]], want: list[str]) -> None:
    assert ids(by_lines(MUTANTS, toy.source(tmp_path).read, touched)) == want


def test_a_mutant_whose_anchor_a_diff_took_away_is_selected(tmp_path: Path) -> None:
    lost = mutant("this is nowhere", "x", name="lost")
    assert ids(by_lines((lost,), toy.source(tmp_path).read, {"toy/engine.py": [range(1, 2)]})) == ["lost"]
    assert ids(by_lines((lost,), toy.source(tmp_path).read, {"toy/other.py": [range(1, 2)]})) == []


def test_a_diff_is_read_by_its_new_side_and_a_deletion_touches_both_neighbours() -> None:
    text = "--- a/m.py\n+++ b/m.py\n@@ -3 +3,2 @@ def\n@@ -9,2 +10,0 @@\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n"
    assert read_diff(text)["m.py"] == [range(3, 5), range(10, 12)]


def git(root: Path, *words: str) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(root), *identity, *words], check=True, capture_output=True, env=environment, timeout=30)


def test_git_tells_which_lines_of_the_working_tree_differ(tmp_path: Path) -> None:
    source = toy.source(tmp_path)
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    path = tmp_path / "toy" / "engine.py"
    path.write_text(path.read_text().replace("return str(number + number)", "return str(number  + number)"))
    assert touched_lines(tmp_path, "HEAD", source.packages) == {"toy/engine.py": [range(11, 12)]}
    with pytest.raises(UsageError, match="--in-diff nowhere: git says"):
        touched_lines(tmp_path, "nowhere", source.packages)
