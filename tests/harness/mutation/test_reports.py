"""The files of a run: outcomes.json against the published schema, JUnit, the text, what GitHub shows. All text is hostile."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.mutation.github import MAX_ANNOTATIONS, commands, job_summary
from harness.mutation.junit import junit
from harness.mutation.matrix import ExitCode
from harness.mutation.stryker import STATUS, outcomes
from harness.mutation.summary import result_line, score, summary
from harness.records.finding import Finding, Verdict
from harness.records.outcome import MutationReport, Outcome, Place, ProbeResult
from tests.harness.mutation.test_matrix import CHECKS, report, result

SCHEMA = Path(__file__).parents[2] / "golden" / "mutation-testing-report-schema" / "mutation-testing-report-schema.json"
HOSTILE = "\x1b[31m::error::x\r\n##[group]<&\"'>]]>|`@all\x00\u202e\ud800%"
FINDING = Finding("check-a", Verdict.MISMATCH, "lookup", "r", HOSTILE, want="a", got=HOSTILE)


def everything() -> MutationReport:
    """A report with each outcome, and hostile text wherever a subject can put it."""
    results = [
        result(
            outcome,
            f"mutant-{number}",
            reason="" if outcome is Outcome.KILLED else HOSTILE,
            title=HOSTILE,
            failed=("check-a", "test:a.py::b") if outcome in (Outcome.KILLED, Outcome.WRONG_KILLER) else (),
            passed=("check-b",),
            missing=() if outcome is Outcome.KILLED else ("check-a",),
            also=("check-b",) if outcome is Outcome.WRONG_KILLER else (),
            findings=(FINDING,),
            place=Place("p/m.py", 2, 3, 2, 9, HOSTILE) if number % 2 else Place("(environment)"),
        )
        for number, outcome in enumerate(Outcome)
    ]
    return report(
        *results,
        probes=(ProbeResult("neutral", True, "survives"), ProbeResult("forced-fail", False, HOSTILE, ("check-b",))),
        unproven=("check-b",),
        baseline=(HOSTILE,),
        problems=(HOSTILE,),
        not_tested={"check-c": HOSTILE},
        seconds=1.25,
    )


def broken_rules(made: object) -> list[str]:
    """What the published schema finds wrong, as messages."""
    schema = json.loads(SCHEMA.read_text())
    return [error.message for error in jsonschema.validators.validator_for(schema)(schema).iter_errors(made)]


def test_outcomes_are_valid_by_the_published_schema() -> None:
    made = outcomes(everything(), {"p/m.py": "x = 1\n"}.get, {"check-a": "A law."}, ExitCode.BASELINE_RED, {"full": "False"})
    assert broken_rules(json.loads(json.dumps(made))) == []
    assert broken_rules({**made, "files": 3}) == ["3 is not of type 'object'"]


def test_outcomes_of_nothing_are_valid_too() -> None:
    made = outcomes(report(), lambda _file: None, {}, ExitCode.NOTHING_RAN, {})
    assert broken_rules(made) == []


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.KILLED, "Killed"),
        (Outcome.SURVIVED, "Survived"),
        (Outcome.WRONG_KILLER, "Survived"),
        (Outcome.NOT_REACHED, "NoCoverage"),
        (Outcome.STALE, "CompileError"),
        (Outcome.UNVIABLE, "CompileError"),
        (Outcome.NO_START, "RuntimeError"),
        (Outcome.DIED, "RuntimeError"),
        (Outcome.FLAKY, "RuntimeError"),
        (Outcome.TIMEOUT, "Timeout"),
        (Outcome.ACCEPTED, "Ignored"),
    ],
)
def test_each_outcome_has_its_status(outcome: Outcome, status: str) -> None:
    assert STATUS[outcome] == status
    assert set(STATUS) == set(Outcome)


def test_outcomes_keep_the_row_the_place_and_our_own_words() -> None:
    made = outcomes(everything(), {"p/m.py": "x = 1\n"}.get, {"check-a": "A law."}, ExitCode.BASELINE_RED, {})
    wrong = next(each for each in made["files"]["p/m.py"]["mutants"] if each["outcome"] == "WRONG-KILLER")
    assert wrong["location"] == {"start": {"line": 2, "column": 3}, "end": {"line": 2, "column": 9}}
    assert (wrong["status"], wrong["killedBy"], wrong["missing"]) == ("Survived", [], ["check-a"])
    assert wrong["coveredBy"] == ["check-a", "test:a.py::b", "check-b"]
    assert made["testFiles"]["checks"]["tests"] == [{"id": "check-a", "name": "A law."}, {"id": "check-b", "name": "check-b"}]
    assert made["testFiles"]["tests"]["tests"] == [{"id": "test:a.py::b", "name": "test:a.py::b"}]
    assert (made["draftproof"]["exitCode"], made["draftproof"]["unproven"]) == (4, ["check-b"])


def suite(text: bytes) -> ET.Element:
    found = ET.fromstring(text).find("testsuite")  # noqa: S314  # written by the code under test
    assert found is not None
    return found


def test_junit_has_one_named_case_per_mutant_with_its_outcome() -> None:
    cases = {case.get("name"): case for case in suite(junit(everything())).iter("testcase")}
    for number, outcome in enumerate(Outcome):
        case = cases[f"mutant-{number}"]
        kinds = [child.tag for child in case]
        if outcome is Outcome.KILLED:
            assert kinds == []
        elif outcome is Outcome.ACCEPTED:
            assert kinds == ["skipped"]
        else:
            assert kinds in (["failure"], ["error"])
            assert case[0].get("type") == outcome.value
    assert (cases["check-b"].get("classname"), cases["check-b"][0].get("type")) == ("mutants.unproven", "UNPROVEN")
    assert (list(cases["neutral"]), cases["forced-fail"][0].tag) == ([], "error")


def test_junit_counts_what_it_holds() -> None:
    found = suite(junit(everything()))
    cases = list(found.iter("testcase"))
    assert int(found.get("tests", "")) == len(cases) == len(Outcome) + 2 + 1 + 2
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(found.get(attribute, "")) == sum(1 for case in cases if case.find(tag) is not None) > 0


def test_the_summary_puts_the_unproven_checks_first_and_the_verdict_last() -> None:
    lines = summary(everything(), ExitCode.BASELINE_RED).splitlines()
    assert lines[0] == "unproven check: check-b (no killed mutant names it as its killer)"
    assert lines[-1].startswith("BASELINE_RED (4): 1 of 10 killed by their named checks; 1 KILLED, 1 WRONG-KILLER, 1 SURVIVED")
    assert lines[-1].endswith("1 unproven checks; 1 of 2 probes hold; 1.2 s")
    assert all(line.isprintable() and not line.lstrip().startswith("::") and "##[" not in line for line in lines)


def test_a_summary_of_a_selection_makes_no_claim_about_other_checks() -> None:
    assert "a selection: no claim about other checks" in summary(report(result(), whole=False), ExitCode.PROVEN)


def test_a_long_red_baseline_is_cut_short_in_the_summary() -> None:
    lines = summary(report(baseline=tuple(f"finding {number}" for number in range(20))), ExitCode.BASELINE_RED).splitlines()
    told = [line for line in lines if line.startswith("baseline red: ")]
    assert len(told) == 13
    assert told[-1] == "baseline red: and 8 more; outcomes.json holds all of them"


def test_gaps_of_the_matrix_are_counted_in_the_summary() -> None:
    assert "1 of 2 cells of the matrix were not asked" in summary(report(result(failed=("check-a",))), ExitCode.PROVEN)


def test_a_line_of_a_kill_is_short_and_one_of_a_wrong_killer_says_what_else_failed() -> None:
    assert result_line(result()) == "KILLED       m  (m.py:1)"
    wrong = result(Outcome.WRONG_KILLER, reason="check-a silent; check-b failed", also=("check-b",))
    assert result_line(wrong) == "WRONG-KILLER m  (m.py:1); check-a silent; check-b failed; also check-b"


def test_accepted_mutants_are_left_out_of_the_score() -> None:
    assert score([result(), result(Outcome.ACCEPTED), result(Outcome.FLAKY)]) == "1 of 2 killed by their named checks"


def test_every_github_command_is_one_line_and_no_text_can_begin_another() -> None:
    made = commands(everything())
    assert made[0] == "::error title=unproven check::check-b: no killed mutant names it as its killer"
    assert len(made) == 1 + 2 + 1 + (len(Outcome) - 2)
    for line in made:
        assert line.startswith("::error ") and "\n" not in line and "\r" not in line and "\x1b" not in line
    placed = [line for line in made if "file=p/m.py,line=2," in line]
    assert len(placed) == 5


def test_only_so_many_annotations_are_made_and_the_last_says_how_many_more() -> None:
    made = commands(report(*(result(Outcome.SURVIVED, f"m{number}") for number in range(60))))
    assert len(made) == MAX_ANNOTATIONS
    assert made[-1] == "::warning title=more::11 more; the job summary holds all of them"


def test_the_job_summary_is_one_table_row_per_mutant_that_is_no_kill() -> None:
    text = job_summary(everything(), ExitCode.BASELINE_RED)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + len(Outcome) - 1
    assert all(line.count("|") == 5 for line in rows)
    assert "<&" not in text and "@all" not in text and "\x1b" not in text
    assert text.splitlines()[0] == "### draftproof mutate s: BASELINE_RED (4)"


def test_the_columns_of_the_matrix_are_the_checks_of_the_gate() -> None:
    made: dict[str, Any] = outcomes(everything(), lambda _file: None, {}, ExitCode.PROVEN, {})
    assert made["draftproof"]["checks"] == list(CHECKS)
