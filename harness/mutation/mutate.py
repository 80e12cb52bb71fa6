"""`draftproof mutate`: from options to a folder of results and one exit code. The only module of this room that prints."""

from __future__ import annotations

import datetime
import os
import platform
import resource
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from harness.defaults import DEFAULT_RECIPE, ROOT
from harness.errors import DraftproofError, UsageError
from harness.mutation.bench import Finished
from harness.mutation.catalogue import RELAY, Catalogue, load_catalogue, load_forced_fail
from harness.mutation.entry import Mutant
from harness.mutation.escape import log_line
from harness.mutation.folder import RunFolder, former_folder, new_folder
from harness.mutation.github import commands, job_summary
from harness.mutation.journal import Journal
from harness.mutation.junit import junit
from harness.mutation.lint import Problem, TestNodes, lint
from harness.mutation.matrix import ExitCode, exit_code
from harness.mutation.overlay import Source, snapshot, tree_hash
from harness.mutation.planted import fingerprint, place_of
from harness.mutation.progress import showing
from harness.mutation.run import Columns, Job, Watcher, run_job
from harness.mutation.selection import by_killer, by_lines, by_name, touched_lines
from harness.mutation.stryker import outcomes
from harness.mutation.summary import summary
from harness.mutation.workshop import Workshop
from harness.mutation.world import Fitted, World, build_world, outline_world
from harness.records.outcome import MutationReport, ProbeResult
from harness.scratch import scratch

BuildWorld = Callable[[Path, str, Path, int], World]


@dataclass(frozen=True, slots=True)
class Options:
    """What a mutation run is asked for."""

    subject: str = "forward-serve"  # a folder of mutants/, or with `relay` a description's name or path
    relay: bool = False  # the faults of the relay, on a described subject, in place of its source's
    only: tuple[str, ...] = ()  # these mutants
    checks: tuple[str, ...] = ()  # the mutants of these killers
    in_diff: str = ""  # the mutants whose anchors differ from this revision
    full: bool = False  # ask every check of the gate of every mutant
    show_list: bool = False  # list the mutants and run nothing
    lint_only: bool = False  # say what of the catalogue cannot be run, and run nothing
    resume: Path | None = None  # the folder of a run that was cut short
    workers: int = 2  # columns, one per core
    root: Path = ROOT
    recipe: Path = DEFAULT_RECIPE

    @property
    def selection(self) -> str:
        """What is left out, in words; "" for the whole catalogue."""
        parts = [f"only {', '.join(self.only)}"] if self.only else []
        parts += [f"checks {', '.join(self.checks)}"] if self.checks else []
        return "; ".join([*parts, *([f"in diff {self.in_diff}"] if self.in_diff else [])])

    @property
    def catalogue(self) -> Path:
        """The folder of the faults."""
        return self.root / "mutants" / (RELAY if self.relay else self.subject)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The machine's part of a run: where it prints, when it is, its environment."""

    console: Console
    now: datetime.datetime
    environment: Mapping[str, str]
    keep: Callable[[MutationReport], None] = lambda _report: None  # handed the whole report, for another face


def mutate(options: Options, build: BuildWorld | None = None, around: Surroundings | None = None) -> ExitCode:
    """Run the mutants that the options name and return how it ends. Errors are told in one line; only an interrupt is raised."""
    build = build or _builder(options)
    around = around or Surroundings(Console(), datetime.datetime.now(datetime.UTC), os.environ)
    try:
        return _mutate(options, build, around)
    except UsageError as error:
        _say(around, f"draftproof mutate: {error}")
        return ExitCode.USAGE
    except DraftproofError as error:
        _say(around, f"draftproof mutate: {type(error).__name__}: {error}")
    except Exception:
        _say(around, traceback.format_exc())
    return ExitCode.INTERNAL


def _builder(options: Options) -> BuildWorld:
    if options.relay:
        return _relay_world
    return outline_world if options.show_list or options.lint_only else build_world


def _relay_world(root: Path, subject: str, recipe: Path, workers: int) -> World:
    from harness.mutation.relayed import relay_world  # noqa: PLC0415  # loads all that fabricates, judges and drives

    return relay_world(root, subject, recipe, workers)


def _mutate(options: Options, build: BuildWorld, around: Surroundings) -> ExitCode:
    if options.relay and options.in_diff:
        raise UsageError(f"--in-diff {options.in_diff}: the relay's faults lie on no line of a source; leave it or --relay out")
    catalogue = load_catalogue(options.catalogue)
    world = build(options.root, options.subject, options.recipe, options.workers)
    selected = world.fit(select(options, catalogue, world.source))
    mutants = selected.mutants
    nodes = TestNodes(options.root)
    problems = lint(mutants, world.source.read, world.laws.checks, world.laws.arms, nodes)
    if options.show_list:
        return _list(selected, problems, world.source, around)
    if options.lint_only:
        return _tell_lint(mutants, problems, catalogue.problems(around.now.date()), around)
    if not mutants:
        _say(around, f"nothing to run: {options.selection or 'the catalogue is empty'}")
        return ExitCode.NOTHING_RAN
    cpu_before = _cpu_seconds()
    with ExitStack() as stack:
        workdir = stack.enter_context(scratch("mutate"))
        overlays, subjects = workdir / "overlays", workdir / "subjects"
        overlays.mkdir()
        workshop = Workshop(snapshot(world.source, workdir / "source"), world.laws, overlays)
        settings = _settings(options, world, workshop)
        place, opened = _open(options, world, settings, around)
        journal = stack.enter_context(opened)
        job = _job(options, catalogue, selected, problems, world, journal, settings, around.now.date())
        columns = stack.enter_context(Columns(stack.enter_context(world.open_arenas(subjects))).open())
        report = _run(job, workshop, columns, place, journal, around)
    report = msgspec.structs.replace(report, cpu_seconds=_cpu_seconds() - cpu_before)  # all that ran has ended, and is counted
    code = exit_code(report)
    around.keep(report)
    place.close(outcomes(report, world.source.read, world.laws.laws, code, settings), junit(report), summary(report, code))
    _publish(report, code, place, around)
    return code


def select(options: Options, catalogue: Catalogue, source: Source) -> tuple[Mutant, ...]:
    """Return the mutants that the options name, in the catalogue's order."""
    mutants = catalogue.mutants
    if options.only:
        mutants = by_name(mutants, options.only)
    if options.checks:
        mutants = by_killer(mutants, options.checks)
    if options.in_diff:
        mutants = by_lines(mutants, source.read, touched_lines(source.root, options.in_diff, source.packages))
    return mutants


def _open(options: Options, world: World, settings: Mapping[str, str], around: Surroundings) -> tuple[RunFolder, Journal]:
    """Open a new folder, or the one of the run that is resumed."""
    if options.resume:
        former = former_folder(options.resume)
        return former, Journal.resume(former.journal, settings)
    place = new_folder(options.root / "reports", world.name or options.subject, around.now)
    return place, Journal.begin(place.journal, settings)


def _job(
    options: Options,
    catalogue: Catalogue,
    selected: Fitted,
    problems: tuple[Problem, ...],
    world: World,
    journal: Journal,
    settings: Mapping[str, str],
    today: datetime.date,
) -> Job:
    mutants, source = selected.mutants, world.source
    acceptances = {mutant.id: found for mutant in mutants if (found := catalogue.acceptance(mutant.id, today))}
    parts = [f"{key}={value}" for key, value in sorted(settings.items())]
    return Job(
        subject=world.name or options.subject,
        mutants=mutants,
        problems=problems,
        forced_fail=() if options.relay else load_forced_fail(options.catalogue),
        tree_hash=lambda: tree_hash(source.root, source.names),
        acceptances=acceptances,
        catalogue_problems=catalogue.problems(today),
        done=dict(journal.done),
        fingerprints={mutant.id: fingerprint(mutant, [*parts, str(acceptances.get(mutant.id))]) for mutant in mutants},
        full=options.full,
        whole=not options.selection,
        not_applicable=selected.not_applicable,
        is_relayed=options.relay,
    )


def _run(
    job: Job, workshop: Workshop, columns: Columns, place: RunFolder, journal: Journal, around: Surroundings
) -> MutationReport:
    with showing(around.console) as show:

        def finished(each: Finished) -> None:
            place.save(each)
            journal.append(each.result)
            show.finished(each.result)

        def probed(probe: ProbeResult) -> None:
            place.save_probe(probe)
            show.probe(probe)

        return run_job(job, workshop, columns, Watcher(probed, show.begin, finished))


def _settings(options: Options, world: World, workshop: Workshop) -> dict[str, str]:
    """Return what a resumed run must agree with."""
    return {
        "subject": world.name or options.subject,
        "selection": options.selection,
        "full": str(options.full),
        "recipe": world.laws.recipe,
        "source": tree_hash(workshop.source.root, workshop.source.names)[:16],
        "python": platform.python_version(),
    }


def _list(selected: Fitted, problems: tuple[Problem, ...], source: Source, around: Surroundings) -> ExitCode:
    mutants = selected.mutants
    wrong = {problem.mutant_id: problem for problem in problems}
    for mutant in mutants:
        place = place_of(mutant, source.read)
        told = wrong.get(mutant.id)
        state = f"{told.outcome.value}: {told.message}" if told else f"killers {', '.join(mutant.entry.killers)}"
        _say(around, f"{mutant.id}  {mutant.entry.kind.value}  {place.file}:{place.line}  {state}")
    for name, why in selected.not_applicable.items():
        _say(around, f"{name}  not applicable: {why}")
    _say(around, f"{len(mutants)} mutants, {len(problems)} of them cannot be run")
    return ExitCode.CATALOGUE if problems else ExitCode.PROVEN


def _tell_lint(
    mutants: tuple[Mutant, ...], problems: tuple[Problem, ...], of_catalogue: tuple[str, ...], around: Surroundings
) -> ExitCode:
    for problem in problems:
        _say(around, f"{problem.mutant_id}: {problem.outcome.value}: {problem.message}")
    for message in of_catalogue:
        _say(around, message)
    _say(around, f"{len(mutants)} mutants read, {len(problems)} of them cannot be run")
    return ExitCode.CATALOGUE if problems or of_catalogue else ExitCode.PROVEN


def _publish(report: MutationReport, code: ExitCode, place: RunFolder, around: Surroundings) -> None:
    _say(around, summary(report, code))
    _say(around, f"results: {place.path}")
    if around.environment.get("GITHUB_ACTIONS") == "true":
        for command in commands(report):
            around.console.print(Text(command), soft_wrap=True)
    step_summary = around.environment.get("GITHUB_STEP_SUMMARY")
    if step_summary:
        with Path(step_summary).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(job_summary(report, code))


def _cpu_seconds() -> float:
    """Return what this process and all that it has waited for have used."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _say(around: Surroundings, text: str) -> None:
    for line in text.split("\n"):
        around.console.print(Text(log_line(line)), soft_wrap=True, highlight=False)
