"""The mutation run as tests (`pytest harness --mutants`): one for each mutant, and one for what the run as a whole must show."""

from __future__ import annotations

import pytest

from harness.mutation.matrix import ExitCode
from harness.records.outcome import MutationReport, Outcome
from harness.report.escape import printable
from harness.report.text import findings_text


def test_mutant(mutant_id: str, mutation: tuple[ExitCode, MutationReport]) -> None:
    """A mutant is killed by every check that it names, or accepted with a reason."""
    (result,) = [result for result in mutation[1].results if result.id == mutant_id]
    if result.outcome not in {Outcome.KILLED, Outcome.ACCEPTED}:
        told = f"{result.outcome.value}: {printable(result.reason)}\n{findings_text(result.findings)}"
        pytest.fail(told, pytrace=False)


def test_probes_hold_and_no_check_is_unproven(mutation: tuple[ExitCode, MutationReport]) -> None:
    """The machinery is believed, the clean run is clean, and every check of the gate killed a mutant that names it."""
    code, report = mutation
    assert [f"{probe.id}: {printable(probe.message)}" for probe in report.probes if not probe.holds] == []
    assert report.baseline == ()
    assert report.problems == ()
    assert report.unproven == ()
    assert code is ExitCode.PROVEN
