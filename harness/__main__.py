"""The `draftproof` command: the same gate as `pytest harness`, for the shell.

Each command imports what it needs: what fabricates, starts and judges takes most of a second to load, and `--help` or
`mutate --lint` need none of it.

Exit codes of `run`, `judge`, `replay` and `doctor`: 0 LOSSLESS, 1 usage, 2 any worse verdict, 3 the machine lacks something, 4 held but
NOT-TRACED, 70 internal. Those of `mutate` stand in harness/mutation.
"""

from __future__ import annotations

import enum
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from harness.defaults import DEFAULT_RECIPE
from harness.errors import DraftproofError, MachineError, UsageError
from harness.records.plan import Tier

if TYPE_CHECKING:
    from harness.gate import GateOptions
    from harness.records.finding import Judgement, Verdict
    from harness.records.recording import Recording, Run

WIDE = 120  # columns of a table where there is no terminal
# The base of all that the parser finds wrong: typer brings a click of its own, and exports no name for it.
WRONG_USE: tuple[type[typer.BadParameter], ...] = typer.BadParameter.__bases__
app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)

Subject = Annotated[str, typer.Option("--subject", help="A shipped description's name, or a path to one.")]
Recipe = Annotated[Path, typer.Option("--recipe", help="The recipe to fabricate.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the judgement as JSON.")]


class ExitCode(enum.IntEnum):
    """How `run`, `judge` and `doctor` end."""

    LOSSLESS = 0
    USAGE = 1
    FINDINGS = 2
    MACHINE = 3
    NOT_TRACED = 4
    INTERNAL = 70


@app.command()
def run(
    subject: Subject = "forward-serve",
    tier: Annotated[Tier, typer.Option(help="How much is asked.")] = Tier.GATE,
    check: Annotated[list[str] | None, typer.Option("--check", help="Only this check; may be repeated.")] = None,
    recipe: Recipe = DEFAULT_RECIPE,
    no_trace: Annotated[bool, typer.Option("--no-trace", help="Without strace; the verdict is NOT-TRACED.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List starts and requests, and ask nothing.")] = False,
    replays: Annotated[Path | None, typer.Option("--replays", help="Where findings are kept (default: below reports/).")] = None,
    shuffle: Annotated[int | None, typer.Option(help="A seed: requests in another order, and cases of its own.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write the recorded run here, for `judge`.")] = None,
    as_json: AsJson = False,
) -> None:
    """Record every arm of a subject and judge it."""
    from harness.fabricate.store import fabricate
    from harness.gate import GateOptions, explained, judged, plan_of
    from harness.records.files import write_json
    from harness.replay import keep

    options = GateOptions(
        subject=subject, tier=tier, checks=tuple(check or ()), traced=not no_trace, recipe=recipe, shuffle=shuffle
    )
    if show:
        for start in plan_of(options, fabricate(recipe)).starts:
            typer.echo(f"{start.id}: " + " ".join(each.id for each in start.requests))
        return
    recorded = _record(options)
    if save:
        write_json(save, recorded)
    judgement = keep(recorded, explained(recorded, judged(recorded), recipe), options, replays)
    _finish(recorded, judgement, as_json)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A finding that a run kept.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print each attempt's verdict and findings as JSON lines.")] = False,
) -> None:
    """Ask again what a kept finding needs, and nothing else: exit 2 where it repeats, 0 where it does not."""
    from harness.replay import attempt_json, attempt_text, replayed

    verdict = None
    for outcome in replayed(file, _tell):
        verdict = outcome.verdict
        typer.echo(attempt_json(outcome) if as_json else attempt_text(outcome))
    assert verdict is not None, "a file without attempts is not written"
    raise typer.Exit(_exit_code(verdict))


@app.command()
def judge(
    recording: Annotated[Path, typer.Argument(help="A run written by `run --save`.")],
    recompute: Annotated[bool, typer.Option("--recompute", help="Compute expectations anew, from fabricated files.")] = False,
    recipe: Recipe = DEFAULT_RECIPE,
    as_json: AsJson = False,
) -> None:
    """Judge a recorded run again, without its subject. Paths are walked anew from the expectations that it holds."""
    from harness.gate import explained, judged, recomputed
    from harness.records.files import read_json
    from harness.records.recording import Run

    recorded = read_json(recording, Run)
    if recompute:
        recorded = recomputed(recorded, recipe)
        source = f"computed anew from {recorded.plan.recipe}"
    else:
        source = "taken from the file" if recorded.expectations else "none: the file holds none"
    typer.echo(f"expectations: {source}", err=True)
    _finish(recorded, explained(recorded, judged(recorded), recipe if recompute else None), as_json)


@app.command()
def doctor(
    subject: Annotated[str, typer.Option("--subject", help="Also what this subject needs; a shipped name, or a path.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the items as JSON.")] = False,
) -> None:
    """Say what this machine has of what the gate and a subject need, and how to get what is missing.

    Exit codes: 0 all there, 3 something is missing, 1 usage.
    """
    from rich.console import Console

    from harness.fabricate.store import default_cache
    from harness.report.checkup import checkup_table, closing_line
    from harness.subjects.description import load_description
    from harness.subjects.doctor import checkup

    found = checkup(load_description(subject) if subject else None, default_cache(os.environ))
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        console = Console()
        (console if console.is_terminal else Console(width=WIDE)).print(checkup_table(found))
        typer.echo(closing_line(found))
    raise typer.Exit(ExitCode.LOSSLESS if found.is_ready else ExitCode.MACHINE)


@app.command("fabricate")
def fabricate_command(
    recipe: Recipe = DEFAULT_RECIPE,
    twins: Annotated[str, typer.Option("--format", help="Also the model and its draft model in this format: gguf, hf.")] = "",
    reseed: Annotated[int | None, typer.Option("--reseed", help="With other seeds: the recipes are written to --into.")] = None,
    into: Annotated[Path | None, typer.Option("--into", help="A folder for what --reseed writes.")] = None,
    remove: Annotated[bool, typer.Option("--clean", help="Remove every cached fabrication instead.")] = False,
) -> None:
    """Build the models and packs of a recipe, or say where they are."""
    from harness.fabricate.reseed import reseeded
    from harness.fabricate.store import clean, default_cache, fabricate
    from harness.fabricate.twins import twin

    if (reseed is None) != (into is None):
        raise UsageError("--reseed, --into: one is given without the other; give both")
    if reseed is not None and into is not None:
        recipe = reseeded(recipe, reseed, into)
        typer.echo(f"wrote {recipe}")
    if remove:
        cache = default_cache(os.environ)
        clean(cache)
        typer.echo(f"removed what {cache} held")
        return
    fixture = fabricate(recipe)
    typer.echo(f"{fixture.recipe}: {len(fixture.streams)} streams")
    for name, path in {"model": fixture.model, **fixture.packs}.items():
        typer.echo(f"  {name}: {path}")
    base = fixture.recipe.partition("@")[0]
    for name in (f"{base}+{twins}", f"{base}-draft+{twins}") if twins else ():
        typer.echo(f"  {name}: {twin(fixture, name)}")


@app.command()
def mutate(
    subject: Annotated[
        str, typer.Option("--subject", help="A folder of mutants/; with --relay a description's name or path.")
    ] = "forward-serve",
    relay: Annotated[
        bool, typer.Option("--relay", help="The faults of a relay before the subject, which needs no source.")
    ] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only this mutant; may be repeated.")] = None,
    check: Annotated[list[str] | None, typer.Option("--check", help="All mutants of this killer; may be repeated.")] = None,
    in_diff: Annotated[str, typer.Option("--in-diff", help="Only mutants whose anchors differ from this revision.")] = "",
    full: Annotated[bool, typer.Option("--full", help="Ask every check of every mutant.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List the mutants and run nothing.")] = False,
    lint: Annotated[bool, typer.Option("--lint", help="Say which mutants cannot be run, and run nothing.")] = False,
    resume: Annotated[Path | None, typer.Option("--resume", help="The folder of a run that was cut short.")] = None,
    workers: Annotated[int, typer.Option("--workers", help="Columns, one per core.")] = 2,
    recipe: Recipe = DEFAULT_RECIPE,
) -> None:
    """Plant every fault of the catalogue and prove that the checks it names fail.

    Exit codes: 0 proven, 1 usage, 2 a survivor, wrong killer, not reached or unproven check, 3 only timeouts or flaky, 4 the
    clean run is red, 5 stale, unviable or no start, 6 nothing ran, 70 internal.
    """
    from harness.mutation.mutate import Options
    from harness.mutation.mutate import mutate as run_mutants

    options = Options(
        subject=subject,
        relay=relay,
        only=tuple(only or ()),
        checks=tuple(check or ()),
        in_diff=in_diff,
        full=full,
        show_list=show,
        lint_only=lint,
        resume=resume,
        workers=workers,
        recipe=recipe,
    )
    raise typer.Exit(run_mutants(options))


def _record(options: GateOptions) -> Run:
    from rich.console import Console
    from rich.progress import Progress

    from harness.fabricate.store import fabricate
    from harness.gate import plan_of, record

    console = Console(stderr=True)
    if not console.is_terminal:
        return record(options, _tell)
    total = len(plan_of(options, fabricate(options.recipe)).starts)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("starts", total=total)
        return record(options, lambda _recording: progress.advance(task))


def _tell(recording: Recording) -> None:
    typer.echo(f"recorded {recording.start.id}: {len(recording.answers)} answers in {recording.seconds:.2f} s", err=True)


def _finish(recorded: Run, judgement: Judgement, as_json: bool) -> None:
    from harness.report.text import findings_text, gate_table

    if as_json:
        typer.echo(msgspec.json.encode(judgement).decode())
    else:
        if judgement.counted:
            typer.echo(findings_text(judgement.counted) + "\n")
        for recording in recorded.recordings:
            if recording.failure:
                typer.echo(f"{recording.start.id}: {recording.failure}\n")
        typer.echo(gate_table(recorded, judgement))
    raise typer.Exit(_exit_code(judgement.verdict))


def _exit_code(verdict: Verdict) -> ExitCode:
    from harness.records.finding import Verdict

    codes = {Verdict.LOSSLESS: ExitCode.LOSSLESS, Verdict.NOT_TRACED: ExitCode.NOT_TRACED}
    return codes.get(verdict, ExitCode.FINDINGS)


def main() -> None:
    """Run the command; every error of ours is one line."""
    try:
        code = app(standalone_mode=False)
    except WRONG_USE as error:
        error.show()
        raise SystemExit(ExitCode.USAGE) from error
    except (typer.Abort, KeyboardInterrupt) as error:
        raise SystemExit(128 + signal.SIGINT) from error
    except DraftproofError as error:
        sys.stderr.write(f"draftproof: {error}\n")
        if isinstance(error, UsageError):
            raise SystemExit(ExitCode.USAGE) from error
        raise SystemExit(ExitCode.MACHINE if isinstance(error, MachineError) else ExitCode.INTERNAL) from error
    raise SystemExit(code or 0)


if __name__ == "__main__":
    main()
