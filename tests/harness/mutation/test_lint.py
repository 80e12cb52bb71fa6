from __future__ import annotations

from pathlib import Path

import pytest

from harness.mutation.edits import Edit
from harness.mutation.entry import Mutant
from harness.mutation.lint import Problem, TestNodes, lint
from harness.records.outcome import Outcome
from tests.harness.mutation import toy
from tests.harness.mutation.toy import entry, mutant

CHECKS, ARMS = ("same-reply", "exact-counts"), ("plain", "lookup")


def run(tmp_path: Path, *mutants: Mutant) -> tuple[Problem, ...]:
    tests = tmp_path / "tests"
    tests.mkdir(parents=True, exist_ok=True)
    (tests / "test_a.py").write_text("def test_b(): pass\nclass TestC:\n    def test_d(self): pass\ndef helper(): pass\n")
    return lint(mutants, toy.source(tmp_path / "tree").read, CHECKS, ARMS, TestNodes(tmp_path))


def test_a_catalogue_in_order_has_no_problem(tmp_path: Path) -> None:
    nodes = ["test:tests/test_a.py::test_b", "test:tests/test_a.py::TestC::test_d", "test:tests/test_a.py::test_b[1]"]
    assert run(tmp_path, mutant("number * 2", "number * 3", "same-reply", *nodes, arms=("lookup",))) == ()


@pytest.mark.parametrize(
    ("find", "replace", "killers", "fields", "outcome", "told"),
    [
        ("number * 22", "x", ("same-reply",), {}, Outcome.STALE, "the anchor is nowhere; nearest: line"),
        ("number", "x", ("same-reply",), {}, Outcome.STALE, "the anchor occurs"),
        ("number * 2", "number *", ("same-reply",), {}, Outcome.UNVIABLE, "does not compile after the edit"),
        ("number * 2", "(number * 2)", ("same-reply",), {}, Outcome.UNVIABLE, "the edit changes no code"),
        ("number * 2", "number * 2", ("same-reply",), {}, Outcome.UNVIABLE, "the edit changes no code"),
        ("number * 2", "3", ("no-such-check",), {}, Outcome.STALE, "no check is called 'no-such-check'"),
        ("number * 2", "3", ("same-reply",), {"allowed": ("gone",)}, Outcome.STALE, "no check is called 'gone'"),
        ("number * 2", "3", ("same-reply",), {"arms": ("npu",)}, Outcome.STALE, "no arm is called 'npu'"),
        ("number * 2", "3", ("test:tests/test_z.py::test_b",), {}, Outcome.STALE, "tests/test_z.py: no such file"),
        ("number * 2", "3", ("test:tests/test_a.py::test_q",), {}, Outcome.STALE, "holds no test 'test_q'"),
        ("number * 2", "3", ("test:tests/test_a.py::helper",), {}, Outcome.STALE, "holds no test 'helper'"),
    ],
)
def test_what_cannot_be_planted_or_judged_is_told(
    tmp_path: Path, find: str, replace: str, killers: tuple[str, ...], fields: dict[str, object], outcome: Outcome, told: str
) -> None:
    (problem,) = run(tmp_path, mutant(find, replace, *killers, **fields))
    assert (problem.mutant_id, problem.outcome) == ("fault", outcome)
    assert told in problem.message


def test_a_stale_entry_does_not_stop_the_others(tmp_path: Path) -> None:
    stale, good = mutant("nowhere to be found", "x", name="stale"), mutant("number * 2", "3", name="good")
    bad = mutant("number * 2", "3 +", name="bad")
    assert [problem.mutant_id for problem in run(tmp_path, stale, good, bad)] == ["stale", "bad"]


def test_overlapping_edits_of_one_mutant_are_told(tmp_path: Path) -> None:
    edits = (Edit("toy/engine.py", "return str(number * 2)", "x"), Edit("toy/engine.py", "number * 2", "y"))
    (problem,) = run(tmp_path, Mutant(entry("a", "b"), "family", edits))
    assert problem.message == "toy/engine.py: two edits overlap; join them"


def test_an_edit_outside_of_the_packages_has_nowhere_to_be(tmp_path: Path) -> None:
    edit = Edit("tests/test_a.py", "def test_b", "def test_x")
    (problem,) = run(tmp_path, Mutant(entry("a", "b"), "family", (edit,)))
    assert "no such file" in problem.message
