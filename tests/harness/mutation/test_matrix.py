from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.mutation.matrix import (
    Cell,
    ExitCode,
    cell,
    counts,
    exit_code,
    not_asked,
    redundant,
    unproven,
    wrong_killers,
)
from harness.records.outcome import MutantResult, MutationReport, Outcome, Place, ProbeResult

CHECKS = ("check-a", "check-b")


def result(outcome: Outcome = Outcome.KILLED, name: str = "m", **fields: Any) -> MutantResult:
    made: dict[str, Any] = {
        "id": name,
        "family": "f",
        "kind": "seed",
        "title": "t",
        "why": "w",
        "outcome": outcome,
        "reason": "",
        "killers": ("check-a",),
        "place": Place("m.py"),
    }
    return MutantResult(**{**made, **fields})


def report(*results: MutantResult, **fields: Any) -> MutationReport:
    return MutationReport(**{"subject": "s", "recipe": "r", "checks": CHECKS, "results": results, "probes": (), **fields})


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.KILLED, ExitCode.PROVEN),
        (Outcome.ACCEPTED, ExitCode.PROVEN),
        (Outcome.WRONG_KILLER, ExitCode.UNPROVEN),
        (Outcome.SURVIVED, ExitCode.UNPROVEN),
        (Outcome.NOT_REACHED, ExitCode.UNPROVEN),
        (Outcome.DIED, ExitCode.UNPROVEN),
        (Outcome.TIMEOUT, ExitCode.UNDECIDED),
        (Outcome.FLAKY, ExitCode.UNDECIDED),
        (Outcome.STALE, ExitCode.CATALOGUE),
        (Outcome.UNVIABLE, ExitCode.CATALOGUE),
        (Outcome.NO_START, ExitCode.CATALOGUE),
    ],
)
def test_each_outcome_has_its_exit_code_also_beside_a_kill(outcome: Outcome, code: ExitCode) -> None:
    assert exit_code(report(result(), result(outcome, "other"))) is code


def test_the_table_of_exit_codes_leaves_no_outcome_out() -> None:
    for outcome in Outcome:
        assert exit_code(report(result(outcome))) in ExitCode


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"baseline": ("x found",)}, ExitCode.BASELINE_RED),
        ({"problems": ("expired",)}, ExitCode.CATALOGUE),
        ({"unproven": ("check-b",)}, ExitCode.UNPROVEN),
        ({"probes": (ProbeResult("neutral", False, "killed"),)}, ExitCode.BASELINE_RED),
        ({"probes": (ProbeResult("forced-fail", False, "stale", stale=True),)}, ExitCode.CATALOGUE),
        ({"probes": (ProbeResult("forced-fail", False, "silent", unproven=("check-a",)),)}, ExitCode.UNPROVEN),
        ({"probes": (ProbeResult("neutral", True, "holds"),)}, ExitCode.PROVEN),
    ],
)
def test_what_is_wrong_beside_the_mutants_has_its_exit_code(fields: dict[str, Any], code: ExitCode) -> None:
    assert exit_code(report(result(), **fields)) is code


def test_where_several_hold_the_order_is_baseline_catalogue_unproven_undecided() -> None:
    flaky, survived, stale = (result(outcome) for outcome in (Outcome.FLAKY, Outcome.SURVIVED, Outcome.STALE))
    assert exit_code(report(flaky, survived, stale, baseline=("red",))) == 4
    assert exit_code(report(flaky, survived, stale)) == 5
    assert exit_code(report(flaky, survived)) == 2
    assert exit_code(report(flaky)) == 3


def test_a_run_of_nothing_proves_nothing() -> None:
    assert exit_code(report()) is ExitCode.NOTHING_RAN


def test_a_check_is_proven_by_a_killed_mutant_that_names_it_and_by_nothing_else() -> None:
    failed_too = result(killers=("check-a",), failed=("check-a", "check-b"))
    survivor = result(Outcome.SURVIVED, killers=("check-b",))
    wrong = result(Outcome.WRONG_KILLER, killers=("check-b", "check-a"), failed=("check-b",))
    assert unproven(CHECKS, [failed_too, survivor, wrong]) == ("check-b",)
    assert unproven(CHECKS, [failed_too, result(killers=("check-b",))]) == ()


def test_a_cell_is_failed_passed_or_not_asked() -> None:
    row = result(failed=("check-a",), passed=("check-b",))
    assert [cell(row, check) for check in (*CHECKS, "check-c")] == [Cell.FAILED, Cell.PASSED, Cell.NOT_ASKED]


def test_gaps_of_the_matrix_are_named() -> None:
    rows = [result(failed=("check-a",)), result(name="n", passed=("check-b",))]
    assert not_asked(CHECKS, rows) == (("m", "check-b"), ("n", "check-a"))


def test_mutants_that_the_same_checks_kill_in_one_file_are_redundant() -> None:
    one, two = result(name="one", failed=("check-a",)), result(name="two", failed=("check-a",))
    elsewhere = result(name="three", failed=("check-a",), place=Place("n.py"))
    other_kind = msgspec.structs.replace(two, id="four", kind="accept-rule-wrong")
    survivor = result(Outcome.SURVIVED, "five", failed=("check-a",))
    assert redundant([one, two, elsewhere, other_kind, survivor]) == (("one", "two"),)


def test_wrong_killers_are_told_with_what_failed_instead() -> None:
    wrong = result(Outcome.WRONG_KILLER, missing=("check-a",), failed=("check-b",))
    assert wrong_killers([wrong, result()]) == (("m", ("check-a",), ("check-b",)),)


def test_counts_are_in_the_order_of_the_outcomes() -> None:
    assert counts([result(Outcome.FLAKY), result(), result()]) == {Outcome.KILLED: 2, Outcome.FLAKY: 1}
