"""A report as outcomes.json, in the mutation-testing-report-schema that Stryker's and others' viewers read.

What that schema has no name for (our outcome, kind, killers, the row of the matrix) stands in extra keys, which it allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.mutation.lint import ReadSource
from harness.mutation.matrix import ExitCode, counts, not_asked, redundant
from harness.records.outcome import MutantResult, MutationReport, Outcome, Place

SCHEMA_VERSION = "2.0"
STATUS: Mapping[Outcome, str] = {
    Outcome.KILLED: "Killed",
    Outcome.SURVIVED: "Survived",
    Outcome.WRONG_KILLER: "Survived",
    Outcome.NOT_REACHED: "NoCoverage",
    Outcome.STALE: "CompileError",
    Outcome.UNVIABLE: "CompileError",
    Outcome.NO_START: "RuntimeError",
    Outcome.DIED: "RuntimeError",
    Outcome.FLAKY: "RuntimeError",
    Outcome.TIMEOUT: "Timeout",
    Outcome.ACCEPTED: "Ignored",
}


def outcomes(
    report: MutationReport, read: ReadSource, laws: Mapping[str, str], code: ExitCode, settings: Mapping[str, str]
) -> dict[str, Any]:
    """Return the report as plain JSON values. `laws` gives each check its sentence, `read` the original sources."""
    files: dict[str, dict[str, Any]] = {}
    for result in report.results:
        file = files.setdefault(result.place.file, _file(result.place, read))
        file["mutants"].append(mutant(result))
    return {
        "schemaVersion": SCHEMA_VERSION,
        "thresholds": {"high": 100, "low": 100},
        "framework": {"name": "draftproof"},
        "config": dict(settings),
        "files": files,
        "testFiles": _tests(report, laws),
        "draftproof": {
            "subject": report.subject,
            "recipe": report.recipe,
            "exitCode": int(code),
            "counts": {outcome.value: count for outcome, count in counts(report.results).items()},
            "checks": list(report.checks),
            "unproven": list(report.unproven),
            "notTested": dict(report.not_tested),
            "notApplicable": dict(report.not_applicable),
            "baseline": list(report.baseline),
            "problems": list(report.problems),
            "probes": [{"id": each.id, "holds": each.holds, "message": each.message} for each in report.probes],
            "redundant": [list(group) for group in redundant(report.results)],
            "numNotAsked": len(not_asked(report.checks, report.results)),
            "isWhole": report.whole,
            "seconds": round(report.seconds, 3),
        },
    }


def mutant(result: MutantResult) -> dict[str, Any]:
    """Return one mutant in the schema's words, with ours beside them."""
    place = result.place
    return {
        "id": result.id,
        "mutatorName": result.kind,
        "description": result.title,
        "replacement": place.replacement,
        "location": {
            "start": {"line": place.line, "column": place.column},
            "end": {"line": place.end_line, "column": place.end_column},
        },
        "status": STATUS[result.outcome],
        "statusReason": f"{result.outcome.value}: {result.reason}" if result.reason else result.outcome.value,
        "killedBy": list(result.failed) if result.outcome is Outcome.KILLED else [],
        "coveredBy": [*result.failed, *result.passed],
        "testsCompleted": len(result.failed) + len(result.passed),
        "duration": round(result.seconds * 1000, 1),
        "outcome": result.outcome.value,
        "family": result.family,
        "why": result.why,
        "killers": list(result.killers),
        "missing": list(result.missing),
        "failed": list(result.failed),
        "passed": list(result.passed),
        "also": list(result.also),
        "numRuns": result.num_runs,
    }


def _file(place: Place, read: ReadSource) -> dict[str, Any]:
    language = "python" if place.file.endswith(".py") else "text"
    return {"language": language, "source": read(place.file) or "", "mutants": []}


def _tests(report: MutationReport, laws: Mapping[str, str]) -> dict[str, Any]:
    nodes = dict.fromkeys(
        name for result in report.results for name in (*result.failed, *result.passed) if name not in report.checks
    )
    files = {
        "checks": [{"id": check, "name": laws.get(check, check)} for check in report.checks],
        "tests": [{"id": node, "name": node} for node in nodes],
    }
    return {name: {"tests": tests} for name, tests in files.items() if tests}
