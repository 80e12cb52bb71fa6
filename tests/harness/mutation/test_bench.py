from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.mutation.bench import run_mutant
from harness.mutation.edits import Edit
from harness.mutation.entry import Mutant
from harness.records.outcome import MutantResult, Outcome
from harness.records.plan import Tier
from tests.harness.mutation import toy
from tests.harness.mutation.toy import RECIPES, ToyArena, mutant

TWICE = "return str(number + number)"
ROUNDS = 'return number if arm == "lookup" else 0'


def run(tmp_path: Path, planted: Mutant, **options: Any) -> MutantResult:
    return run_mutant(toy.workshop(tmp_path), planted, ToyArena(), **options).result


def test_a_fault_that_all_its_killers_find_is_killed_after_one_look(tmp_path: Path) -> None:
    arena = ToyArena()
    planted = mutant(TWICE, "return str(number)", "same-reply")
    result = run_mutant(toy.workshop(tmp_path), planted, arena).result
    assert (result.outcome, result.failed, result.missing, result.num_runs) == (Outcome.KILLED, ("same-reply",), (), 1)
    assert [plan.tier for plan in arena.plans] == [Tier.MUTATION, Tier.MUTATION]  # the clean run, then the mutant
    assert result.findings[0].got == "3"


def test_one_silent_killer_of_two_makes_a_wrong_killer_after_the_gate_plan(tmp_path: Path) -> None:
    result = run(tmp_path, mutant(TWICE, "return str(number)", "exact-counts", "same-reply"))
    assert (result.outcome, result.missing) == (Outcome.WRONG_KILLER, ("exact-counts",))
    assert result.also == ("wide",)
    assert result.reason == "exact-counts silent; same-reply, wide failed"


def test_a_fault_that_only_other_checks_find_is_a_wrong_killer(tmp_path: Path) -> None:
    result = run(tmp_path, mutant(TWICE, "return str(number)", "exact-counts", allowed=("same-reply",)))
    assert (result.outcome, result.failed, result.also) == (Outcome.WRONG_KILLER, ("same-reply", "wide"), ("wide",))


def test_a_fault_that_no_check_finds_survives_and_was_asked_of_the_whole_gate(tmp_path: Path) -> None:
    result = run(tmp_path, mutant('return "negative"', 'return "below"', "same-reply"))
    assert result.outcome is Outcome.NOT_REACHED
    equal = run(tmp_path / "2", mutant("return str(2 * number)", "return str(number * 2)", "same-reply"))
    assert (equal.outcome, equal.passed) == (Outcome.SURVIVED, ("same-reply", "exact-counts", "wide"))


def test_a_fault_in_a_function_that_nobody_calls_is_not_reached(tmp_path: Path) -> None:
    result = run(tmp_path, mutant('return "nobody calls this"', 'return "nor this"'))
    assert (result.outcome, result.reason) == (Outcome.NOT_REACHED, "the planted statement never ran: toy/engine.py")


def test_a_fault_that_only_the_gate_slice_of_its_killer_shows_is_killed_and_says_so(tmp_path: Path) -> None:
    result = run(tmp_path, mutant("return str(number * 2)", "return str(number)", "wide"))
    assert (result.outcome, result.num_runs) == (Outcome.KILLED, 3)
    assert result.reason == "by the gate plan only: the mutation slices of its killers do not show it"


def test_full_asks_the_whole_gate_at_once(tmp_path: Path) -> None:
    result = run(tmp_path, mutant("return str(number * 2)", "return str(number)", "wide"), full=True)
    assert (result.outcome, result.num_runs, result.reason) == (Outcome.KILLED, 1, "")
    assert result.passed == ("same-reply", "exact-counts")


def test_a_fault_that_shows_in_a_forked_process_alone_is_flaky(tmp_path: Path) -> None:
    fork_only = 'return str(number + number + (os.environ["TOY_IS_FRESH"] == "0"))'
    killed_once = run(tmp_path, mutant(TWICE, fork_only, "same-reply"))
    assert killed_once.outcome is Outcome.KILLED  # a plain kill is not looked at again
    wrong = run(tmp_path / "2", mutant(TWICE, fork_only, "same-reply", "exact-counts"))
    assert (wrong.outcome, wrong.reason) == (Outcome.FLAKY, "WRONG-KILLER at first, SURVIVED in a fresh process")


@pytest.mark.parametrize(
    ("status", "outcome"), [(7, Outcome.TIMEOUT), (8, Outcome.DIED), (9, Outcome.NO_START)], ids=["timeout", "died", "no start"]
)
def test_a_subject_that_fails_is_no_kill_though_its_killer_has_findings(tmp_path: Path, status: int, outcome: Outcome) -> None:
    result = run(tmp_path, mutant(TWICE, f"os._exit({status})", "same-reply"))
    assert (result.outcome, result.failed, result.num_runs) == (outcome, ("same-reply",), 2)


def test_a_death_is_a_kill_where_the_entry_says_so(tmp_path: Path) -> None:
    result = run(tmp_path, mutant(TWICE, "os._exit(8)", "same-reply", died_kills=True))
    assert (result.outcome, result.reason) == (Outcome.KILLED, "")


def test_a_death_with_a_silent_killer_is_no_kill_though_the_entry_says_that_deaths_kill(tmp_path: Path) -> None:
    planted = mutant(TWICE, "os._exit(8)", "same-reply", "test:a.py::b", died_kills=True)
    shop = toy.workshop(tmp_path, lambda _root, nodes, _budget: toy.node_run(passed=nodes))
    assert run_mutant(shop, planted, ToyArena()).result.outcome is Outcome.DIED


def test_a_module_that_does_not_import_is_unviable_and_no_start(tmp_path: Path) -> None:
    result = run(tmp_path, mutant("import os\n", "import os\nimport no_such_module\n", "same-reply"))
    assert (result.outcome, result.reason) == (Outcome.UNVIABLE, "its module does not import")


def test_budgets_come_from_the_clean_run_and_an_entry_may_set_its_own(tmp_path: Path) -> None:
    arena = ToyArena()
    shop = toy.workshop(tmp_path)
    run_mutant(shop, mutant(TWICE, "return str(number)", "same-reply"), arena)
    run_mutant(shop, mutant(TWICE, "return str(number)", "same-reply", cpu_budget_s=7.0, wall_budget_s=9.0), arena)
    clean, first, second = arena.grounds
    assert clean.budgets is None
    assert {(each.cpu_s, each.wall_s) for each in (first.budgets or {}).values()} == {(2, 30.0)}
    assert {(each.cpu_s, each.wall_s) for each in (second.budgets or {}).values()} == {(7, 9.0)}


def test_arms_restrict_the_plan_and_keep_what_they_are_compared_with(tmp_path: Path) -> None:
    arena = ToyArena()
    run_mutant(toy.workshop(tmp_path), mutant(TWICE, "return str(number)", "same-reply", arms=("lookup",)), arena)
    assert [start.id for start in arena.plans[-1].starts] == ["plain", "lookup"]
    run_mutant(toy.workshop(tmp_path / "2"), mutant("2 * number", "3 * number", "wide", arms=("plain",)), arena)
    assert [start.id for start in arena.plans[-1].starts] == ["plain"]


def test_the_confirmation_runs_marked_in_a_fresh_process_and_nothing_else_does(tmp_path: Path) -> None:
    arena = ToyArena()
    run_mutant(toy.workshop(tmp_path), mutant('return "negative"', 'return "below"', "same-reply"), arena)
    assert [ground.fresh for ground in arena.grounds] == [False, False, False, True]
    assert [plan.tier for plan in arena.plans] == [Tier.MUTATION, Tier.MUTATION, Tier.GATE, Tier.GATE]


def test_test_killers_are_run_and_judged_against_their_clean_run(tmp_path: Path) -> None:
    asked: list[str] = []

    def run_nodes(root: Path, nodes: Any, _budget: Any) -> Any:
        is_mutant = "return str(number)" in (root / "toy" / "engine.py").read_text()
        asked.extend(nodes)
        return toy.node_run(failed=nodes if is_mutant else (), passed=() if is_mutant else nodes)

    shop = toy.workshop(tmp_path, run_nodes)
    killed = run_mutant(shop, mutant(TWICE, "return str(number)", "test:a.py::b"), None).result
    assert (killed.outcome, killed.failed, killed.num_runs) == (Outcome.KILLED, ("test:a.py::b",), 1)
    survived = run_mutant(shop, mutant(TWICE, "return str(2 * number)", "test:a.py::b"), None).result
    assert (survived.outcome, survived.passed) == (Outcome.NOT_REACHED, ("test:a.py::b",))
    assert asked == ["a.py::b"] * 4  # once clean, once for the kill, twice for the survivor


def test_a_test_that_fails_without_the_fault_too_kills_nothing(tmp_path: Path) -> None:
    shop = toy.workshop(tmp_path, lambda _root, nodes, _budget: toy.node_run(failed=nodes))
    result = run_mutant(shop, mutant(TWICE, "return str(number)", "test:a.py::b"), None).result
    assert result.outcome is Outcome.NOT_REACHED
    assert shop.cleans[0].problems[0] == "test:a.py::b fails without any fault"


def test_the_log_holds_every_look_and_the_diff_its_lines(tmp_path: Path) -> None:
    shop = toy.workshop(tmp_path)
    done = run_mutant(shop, mutant(TWICE, "return str(number)", "exact-counts"), ToyArena())
    assert "look: mutation plan of exact-counts" in done.log
    assert "look: gate plan of same-reply, exact-counts, wide; fresh process; with marks" in done.log
    assert "-        return str(number + number)\n+        return str(number)\n" in done.diff
    assert (done.result.place.line, done.result.place.column) == (11, 26)
    assert list(shop.folder.iterdir()) == []


def test_several_edits_of_one_mutant_are_planted_together(tmp_path: Path) -> None:
    edits = (Edit("toy/engine.py", TWICE, "return str(number)"), Edit("toy/engine.py", ROUNDS, "return 1"))
    planted = Mutant(toy.entry("", "", "same-reply", "exact-counts"), "family", edits)
    assert run(tmp_path, planted).outcome is Outcome.KILLED


def test_what_a_wrong_killer_found_is_kept_with_the_fault_and_a_kill_keeps_nothing(tmp_path: Path) -> None:
    planted = mutant(TWICE, "return str(number)", "exact-counts", allowed=("same-reply",))
    finished = run_mutant(toy.workshop(tmp_path), planted, ToyArena())
    assert [place[0] for place in finished.replays] == ["same-reply", "wide"]
    for replay in finished.replays.values():
        assert replay.mutation is not None
        assert [(edit.find, edit.replace) for edit in replay.mutation.edits] == [(TWICE, "return str(number)")]
        assert (replay.subject, replay.recipes, replay.attempts[0].plan.checks) == ("toy", RECIPES, (replay.finding.check,))
    killed = mutant(TWICE, "return str(number)", "same-reply")
    assert run_mutant(toy.workshop(tmp_path / "2"), killed, ToyArena()).replays == {}
