from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.mutation import overlay, probes
from harness.mutation.edits import Edit
from harness.mutation.entry import Mutant
from harness.mutation.look import Ask, plan_of
from harness.mutation.verdict import Attempt, Event
from harness.mutation.workshop import Clean
from harness.records.finding import CheckResult, Finding, Judgement, Verdict
from harness.records.plan import Tier
from tests.harness.mutation import toy
from tests.harness.mutation.toy import ToyArena, mutant

CHECKS = ("same-reply", "exact-counts", "wide")
LIES = (
    Edit("toy/engine.py", "return str(number + number)", 'return "lie"'),
    Edit("toy/engine.py", 'return number if arm == "lookup" else 0', "return 77"),
)


def judged(*findings: Finding, examined: int = 3) -> Judgement:
    results = (CheckResult("same-reply", {"lookup": examined}, findings),)
    return Judgement(Verdict.LOSSLESS, results)


def test_two_clean_runs_hold() -> None:
    assert probes.clean_twice(Clean((), judgement=judged()), Clean((), judgement=judged())).holds


def test_a_known_fault_of_the_subject_does_not_make_a_clean_run_red() -> None:
    known = Finding("same-reply", Verdict.MISMATCH, "lookup", "r", "text differs", known="fault-a")
    assert probes.clean_twice(Clean((), judgement=judged(known)), Clean((), judgement=judged(known))).holds


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (Clean(("lookup: died",), judgement=judged()), "lookup: died"),
        (Clean((), judgement=judged(Finding("same-reply", Verdict.MISMATCH, "lookup", "r", "text differs"))), "text differs"),
        (Clean((), judgement=judged(examined=2)), "examined {'same-reply': 3} and {'same-reply': 2}"),
    ],
    ids=["a start fails", "a finding", "fewer answers examined"],
)
def test_a_clean_run_that_is_not_clean_does_not_hold(second: Clean, told: str) -> None:
    for pair in ((Clean((), judgement=judged()), second), (second, Clean((), judgement=judged()))):
        result = probes.clean_twice(*pair)
        assert not result.holds
    assert told in probes.clean_twice(Clean((), judgement=judged()), second).message


def run(tmp_path: Path, probe: Any, *arguments: Any) -> Any:
    shop = toy.workshop(tmp_path)
    arena = ToyArena()
    plan = plan_of(shop, Ask(CHECKS, Tier.MUTATION))
    clean = shop.record_clean(plan, arena)
    return probe(shop, *arguments, plan, clean, arena)


def test_a_comment_in_every_module_survives(tmp_path: Path) -> None:
    result = run(tmp_path, probes.neutral)
    assert (result.holds, result.message) == (True, "a comment survives 3 checks")


def test_the_neutral_mutant_changes_every_module_and_nothing_but_comments(tmp_path: Path) -> None:
    texts = probes.neutral_texts(toy.source(tmp_path))
    assert sorted(texts) == ["toy/__init__.py", "toy/engine.py"]
    assert texts["toy/engine.py"] == toy.ENGINE + probes.COMMENT


@pytest.mark.parametrize(
    "seen",
    [Attempt(CHECKS, ("wide",)), Attempt(CHECKS, (), (Event.NO_START,)), Attempt((), ())],
    ids=["killed", "no start", "nothing asked"],
)
def test_a_neutral_mutant_that_does_not_plainly_survive_fails_the_probe(seen: Attempt) -> None:
    assert not probes.neutral_verdict(seen).holds


def test_every_check_fails_on_a_subject_that_lies(tmp_path: Path) -> None:
    result = run(tmp_path, probes.forced_fail, LIES)
    assert (result.holds, result.message) == (True, "all 3 checks fail on a subject that lies")


def test_a_check_that_stays_silent_on_a_subject_that_lies_is_unproven(tmp_path: Path) -> None:
    result = run(tmp_path, probes.forced_fail, LIES[:1])
    assert (result.holds, result.unproven) == (False, ("exact-counts",))


def test_controls_need_not_fail_on_a_subject_that_lies() -> None:
    seen = Attempt(("control-tracer", "same-reply"), ("same-reply",))
    assert probes.forced_fail_verdict(seen).holds
    assert not probes.forced_fail_verdict(Attempt(("control-tracer",), ())).holds


def test_a_subject_that_dies_instead_of_lying_fails_the_probe() -> None:
    result = probes.forced_fail_verdict(Attempt(CHECKS, CHECKS, (Event.DIED,)))
    assert (result.holds, result.unproven, result.stale) == (False, (), False)


@pytest.mark.parametrize(
    "edits",
    [(), (Edit("toy/engine.py", "nowhere", "x"),), (Edit("toy/engine.py", "number * 2", "number *"),)],
    ids=["none", "lost anchor", "no syntax"],
)
def test_a_forced_fail_mutant_that_cannot_be_planted_is_stale(tmp_path: Path, edits: tuple[Edit, ...]) -> None:
    result = run(tmp_path, probes.forced_fail, edits)
    assert (result.holds, result.stale) == (False, True)


def test_mutants_are_taken_back_byte_for_byte_also_new_files(tmp_path: Path) -> None:
    new = Mutant(toy.entry("a", "b"), "family", (Edit("toy/new.py", "", "x = 1\n"),))
    result = probes.apply_revert(toy.workshop(tmp_path), [mutant("number * 2", "3"), new])
    assert (result.holds, result.message) == (True, "2 mutants planted and taken back, byte for byte")


def test_a_mutant_that_leaves_the_tree_as_it_was_fails_the_probe(tmp_path: Path) -> None:
    result = probes.apply_revert(toy.workshop(tmp_path), [mutant("number * 2", "number * 2")])
    assert (result.holds, result.message) == (False, "fault: planted, and nothing has changed")


def test_a_revert_that_leaves_something_behind_fails_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = toy.workshop(tmp_path)
    monkeypatch.setattr(probes, "_revert", lambda root, _source, texts: overlay.write(root, dict.fromkeys(texts, "other")))
    result = probes.apply_revert(shop, [mutant("number * 2", "3")])
    assert (result.holds, result.message) == (False, "fault: taken back, and the tree is not the same")


def test_a_working_tree_that_changed_fails_the_probe() -> None:
    assert probes.working_tree("a" * 64, "a" * 64).holds
    assert not probes.working_tree("a" * 64, "b" * 64).holds


def test_test_nodes_must_pass_on_a_neutral_tree(tmp_path: Path) -> None:
    seen: list[str] = []

    def run_nodes(root: Path, nodes: Any, _budget: Any) -> Any:
        seen.append((root / "toy" / "engine.py").read_text())
        return toy.node_run(passed=nodes)

    result = probes.nodes_neutral(toy.workshop(tmp_path, run_nodes), ["a.py::b"])
    assert (result.holds, seen) == (True, [toy.ENGINE + probes.COMMENT])
    assert result.log == ""
    failing = toy.workshop(tmp_path / "2", lambda _root, nodes, _budget: toy.node_run(failed=nodes))
    assert not probes.nodes_neutral(failing, ["a.py::b"]).holds


def test_a_finding_is_told_in_one_harmless_line() -> None:
    finding = Finding("same-reply", Verdict.MISMATCH, "lookup", "", "a\nb\x1b")
    assert probes.told(finding) == r"same-reply at lookup: a\nb\x1b"
    assert probes.told(msgspec.structs.replace(finding, request="r")) == r"same-reply at lookup r: a\nb\x1b"
