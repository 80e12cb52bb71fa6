"""Findings kept as files, and asked again: `draftproof replay FILE` fabricates, starts and asks what one file says, and nothing else."""

from __future__ import annotations

import datetime
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from harness.checks.check import Check
from harness.checks.cut import is_same
from harness.checks.evidence import Evidence
from harness.checks.judge import judge
from harness.checks.registry import ALL_CHECKS
from harness.checks.replays import Origin, Place, named, place_of, replays_of
from harness.defaults import ROOT
from harness.errors import UsageError
from harness.fabricate.store import default_cache, fabricate
from harness.gate import GateOptions, asked, explained
from harness.mutation.columns import with_environment
from harness.mutation.edits import Edit, problem
from harness.mutation.folder import new_folder
from harness.mutation.lint import plant
from harness.mutation.overlay import Source, make_overlay
from harness.mutation.recipes import laid_out, recipe_files
from harness.records.files import read_json, write_json
from harness.records.finding import Finding, Judgement, Verdict
from harness.records.fixture import Fixture
from harness.records.recording import Recording, Run
from harness.records.replay import Attempt, Mutation, Replay
from harness.report.escape import printable
from harness.report.text import findings_text
from harness.scratch import scratch
from harness.subjects.description import Description, load_description
from harness.subjects.requirements import require


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one attempt of a replay came to."""

    attempt: Attempt
    run: Run
    verdict: Verdict  # LOSSLESS where the finding does not repeat
    findings: tuple[Finding, ...]  # those that repeat it


def keep(run: Run, judgement: Judgement, options: GateOptions, folder: Path | None = None) -> Judgement:
    """Write a file for each finding that counts, within bounds, and return the judgement whose findings name theirs.

    `folder` is made where it is missing; None: a new one under reports/. Nothing is written for a run without findings.
    """
    subject = options.subject if not options.subject.endswith(".toml") else str(Path(options.subject).absolute())
    origin = Origin(subject, recipe_files(options.recipe))
    replays = replays_of(Evidence(run), judgement.counted, ALL_CHECKS, origin)
    if not replays:
        return judgement
    place = folder or new_folder(ROOT / "reports", run.subject, datetime.datetime.now(datetime.UTC), kind="run").path
    return naming(judgement, write_replays(replays, place))


def write_replays(replays: Mapping[Place, Replay], folder: Path) -> dict[Place, Path]:
    """Write replays into a folder, and return where each is."""
    written = {}
    for (place, _), (name, replay) in zip(replays.items(), named(replays).items(), strict=True):
        written[place] = folder / name
        write_json(written[place], replay)
    return written


def naming(judgement: Judgement, written: Mapping[Place, Path]) -> Judgement:
    """Return a judgement whose findings are repeated by the files that were written for their places."""

    def of(finding: Finding) -> Finding:
        path = written.get(place_of(finding))
        return (
            finding if path is None else msgspec.structs.replace(finding, repeat=f"draftproof replay {shlex.quote(_shown(path))}")
        )

    results = tuple(msgspec.structs.replace(result, findings=tuple(map(of, result.findings))) for result in judgement.results)
    return msgspec.structs.replace(judgement, results=results)


def replayed(file: Path, progress: Callable[[Recording], None] = lambda _recording: None) -> Iterator[Replayed]:
    """Ask what a file says, and yield what came of each attempt, until one repeats the finding or proves nothing.

    Raises FileFormatError on a broken file, UsageError where what it needs is not here any more: another recipe is fabricated from
    its text, its check or arm is gone, or its fault cannot be planted.
    """
    replay = read_json(file, Replay)
    check = _check_of(file, replay)
    description = load_description(replay.subject)
    require(description, default_cache(os.environ))
    if replay.mutation is not None and replay.mutation.environment:
        description = with_environment(description, replay.mutation.environment)
    with laid_out(file, replay) as recipe, _overlay(file, replay.mutation, description) as overlay:
        fixture = fabricate(recipe)
        for attempt in replay.attempts:
            outcome = _attempted(attempt, replay, check, (fixture, description, overlay, recipe), progress)
            outcome = replace(outcome, findings=tuple(_repeated_by(file, one) for one in outcome.findings))
            yield outcome
            if outcome.verdict is not Verdict.LOSSLESS:
                return


def attempt_text(outcome: Replayed) -> str:
    """Return what an attempt came to, for a person: what was asked, the findings that repeat it, the verdict."""
    starts = outcome.run.plan.starts
    told = f"{printable(outcome.attempt.name)}: {len(starts)} starts, {sum(len(start.requests) for start in starts)} requests"
    deaths = [printable(f"{one.start.id}: {one.failure}") for one in outcome.run.recordings if one.failure]
    ends = {Verdict.LOSSLESS: "it does not repeat", Verdict.BLIND: "nothing was looked at where it was found"}
    end = "it repeats" if outcome.findings else ends.get(outcome.verdict, "the subject failed before it could be told")
    findings = [findings_text(outcome.findings)] if outcome.findings else []
    return "\n".join([told, *findings, *deaths, f"{outcome.verdict.value}: {end}"])


def attempt_json(outcome: Replayed) -> str:
    """Return what an attempt came to as one line of JSON."""
    told = {"attempt": outcome.attempt.name, "verdict": outcome.verdict, "findings": outcome.findings}
    return msgspec.json.encode(told).decode()


def _attempted(
    attempt: Attempt,
    replay: Replay,
    check: Check,
    ground: tuple[Fixture, Description, Path | None, Path],
    progress: Callable[[Recording], None],
) -> Replayed:
    fixture, description, overlay, recipe = ground
    run = asked(attempt.plan, fixture, description, traced=replay.traced, overlay=overlay, progress=progress)
    judgement = explained(run, judge(run, [check]), recipe)
    found = tuple(one for one in judgement.counted if is_same(replay.finding, one))
    return Replayed(attempt, run, _verdict(run, judgement, found, replay.finding), found)


def _verdict(run: Run, judgement: Judgement, found: tuple[Finding, ...], finding: Finding) -> Verdict:
    """Name what an attempt proves; one that looked at nothing where the finding was proves nothing."""
    if found:
        return min((one.verdict for one in found), key=lambda verdict: verdict.rank)
    if any(recording.failure for recording in run.recordings):
        return Verdict.DIED
    examined = [count for result in judgement.results for start, count in result.examined.items() if finding.start in ("", start)]
    return Verdict.LOSSLESS if any(examined) else Verdict.BLIND


def _check_of(file: Path, replay: Replay) -> Check:
    for check in ALL_CHECKS:
        if check.id == replay.finding.check:
            return check
    raise UsageError(f"{file}: check={replay.finding.check} is not known here; use the version that wrote the file")


@contextmanager
def _overlay(file: Path, mutation: Mutation | None, description: Description) -> Iterator[Path | None]:
    """Plant the fault of a mutant in a copy of the subject's source; None where there is none."""
    if mutation is None or not mutation.edits:
        yield None
        return
    root = description.source_root
    if root is None or description.source is None:
        raise UsageError(f"{file}: mutation={mutation.id}, and {description.name} has no source tree to plant it in")
    source = Source(root, description.source.packages)
    edits = [Edit(one.file, one.find, one.replace) for one in mutation.edits]
    problems = [told for edit in edits if (told := problem(source.read(edit.file), edit))]
    if problems:
        raise UsageError(f"{file}: mutation={mutation.id} cannot be planted any more: {'; '.join(problems)}")
    with scratch("overlay") as folder:
        yield make_overlay(source, plant(edits, source.read), folder / "source")


def _repeated_by(path: Path, finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, repeat=f"draftproof replay {shlex.quote(_shown(path))}")


def _shown(path: Path) -> str:
    """Return a path as a person would write it here."""
    absolute, here = path.absolute(), Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)
