"""What `pytest harness` collects: options, one recorded run per session, and the closing table."""

from __future__ import annotations

import datetime
import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.errors import DraftproofError
from harness.fabricate.store import fabricate
from harness.gate import GateOptions, explained, judged, plan_of, record
from harness.mutation.catalogue import load_catalogue
from harness.mutation.matrix import ExitCode
from harness.mutation.mutate import Options as MutateOptions
from harness.mutation.mutate import Surroundings, mutate
from harness.records.files import write_json
from harness.records.finding import Judgement
from harness.records.outcome import MutationReport
from harness.records.plan import Plan, Tier
from harness.records.recording import Recording, Run
from harness.replay import keep
from harness.report.text import gate_table

OPTIONS = pytest.StashKey[GateOptions]()
PLAN = pytest.StashKey[Plan]()
OUTCOME = pytest.StashKey[tuple[Run, Judgement]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the gate's options."""
    group = parser.getgroup("draftproof")
    group.addoption("--subject", default="forward-serve", help="a shipped description's name, or a path to one")
    group.addoption("--tier", default=Tier.GATE.value, choices=[tier.value for tier in Tier])
    group.addoption("--check", action="append", default=[], help="only this check (may be repeated)")
    group.addoption("--no-trace", action="store_true", help="run without strace; the verdict is NOT-TRACED at best")
    group.addoption("--mutants", action="store_true", help="run the mutant catalogue in place of the gate")
    group.addoption("--full", action="store_true", help="with --mutants: ask every check of every mutant")
    group.addoption("--shuffle", type=int, help="a seed: requests in another order, and cases of its own")
    group.addoption("--replays", type=Path, help="where findings are kept, for `draftproof replay` (default: below reports/)")
    group.addoption("--save", type=Path, help="write the recorded run to this file, for `draftproof judge`")


def pytest_configure(config: pytest.Config) -> None:
    """Keep what was asked for where collection and fixtures find it."""
    config.stash[OPTIONS] = GateOptions(
        subject=config.getoption("--subject"),
        tier=Tier(config.getoption("--tier")),
        checks=tuple(config.getoption("--check")),
        traced=not config.getoption("--no-trace"),
        shuffle=config.getoption("--shuffle"),
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect the face that was asked for: the gate, or the mutants."""
    other_face = "test_gate.py" if config.getoption("--mutants") else "test_mutants.py"
    return True if collection_path == Path(__file__).with_name(other_face) else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per check and arm, from the plan alone, or one per mutant, from the catalogue alone."""
    if "mutant_id" in metafunc.fixturenames:
        metafunc.parametrize("mutant_id", _mutant_ids(metafunc.config.getoption("--subject")))
    if not {"check_id", "arm"} <= set(metafunc.fixturenames):
        return
    options = metafunc.config.stash[OPTIONS]
    try:
        plan = plan_of(options, fabricate(options.recipe))
    except DraftproofError as error:
        raise pytest.UsageError(str(error)) from error
    metafunc.config.stash[PLAN] = plan
    pairs = [(check_id, arm) for check_id, arms in _arms_by_check(plan).items() for arm in sorted(arms)]
    metafunc.parametrize(("check_id", "arm"), pairs, ids=[f"{check_id}-{arm}" for check_id, arm in pairs])


def _arms_by_check(plan: Plan) -> dict[str, set[str]]:
    """Return the arms on which each check is tested: those that it compares, references left out unless it has no others."""
    references = {start.reference for start in plan.starts}
    arms: dict[str, set[str]] = {}
    for check_id in plan.checks:
        starts = [start for start in plan.starts if any(check_id in request.checks for request in start.requests)]
        compared = [start for start in starts if start.id not in references]
        arms[check_id] = {start.arm for start in compared or starts} or {"run"}
    return arms


def _mutant_ids(subject: str) -> list[str]:
    try:
        return [mutant.id for mutant in load_catalogue(MutateOptions().root / "mutants" / subject).mutants]
    except DraftproofError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.fixture(scope="session")
def mutation(request: pytest.FixtureRequest) -> tuple[ExitCode, MutationReport]:
    """Run the whole catalogue once; every test reads its own part."""
    reports: list[MutationReport] = []
    around = Surroundings(Console(stderr=True), datetime.datetime.now(datetime.UTC), os.environ, reports.append)
    options = MutateOptions(subject=request.config.getoption("--subject"), full=request.config.getoption("--full"))
    code = mutate(options, around=around)
    if not reports:
        raise pytest.exit(f"the mutation run made no report: {code.name}", returncode=code)
    return code, reports[0]


@pytest.fixture(scope="session")
def tested_arms(outcome: tuple[Run, Judgement]) -> dict[str, set[str]]:
    """The arms on which each check has a test of its own."""
    return _arms_by_check(outcome[0].plan)


@pytest.fixture(scope="session")
def outcome(request: pytest.FixtureRequest) -> tuple[Run, Judgement]:
    """Record the whole plan once and judge it once; every test reads its own part."""
    config = request.config
    options = config.stash[OPTIONS]
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")

    def progress(recording: Recording) -> None:
        if terminal is not None and config.get_verbosity() > 0 and capture is not None:
            with capture.global_and_fixture_disabled():
                sys.stderr.write(f"recorded {recording.start.id} in {recording.seconds:.2f} s\n")

    try:
        run = record(options, progress, config.stash[PLAN])
    except DraftproofError as error:
        raise pytest.exit(f"{type(error).__name__}: {error}", returncode=3) from error
    if config.getoption("--save"):
        write_json(config.getoption("--save"), run)
    judgement = explained(run, judged(run), options.recipe)
    gc.freeze()  # all of it lives to the end: the collections there need not walk through it
    config.stash[OUTCOME] = run, keep(run, judgement, options, config.getoption("--replays"))
    return config.stash[OUTCOME]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """End with the short table."""
    if OUTCOME in config.stash:
        run, judgement = config.stash[OUTCOME]
        terminalreporter.section("draftproof")
        terminalreporter.write_line(gate_table(run, judgement))
