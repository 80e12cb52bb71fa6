"""A subject that is small enough to read: a package of one module, run by a child process per start, with two checks."""

from __future__ import annotations

import builtins
import datetime
import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from rich.console import Console

from harness.checks.check import Check, Ledger
from harness.checks.evidence import Evidence
from harness.checks.replays import Origin
from harness.mutation.arena import CPU_BUDGET, Arena, Ground
from harness.mutation.edits import Edit
from harness.mutation.entry import Entry, Kind, Mutant
from harness.mutation.laws import Laws, laws_of
from harness.mutation.look import MARKS_FILE
from harness.mutation.marker import MODULE
from harness.mutation.mutate import Surroundings
from harness.mutation.nodes import NodeRun
from harness.mutation.overlay import Source
from harness.mutation.workshop import Workshop
from harness.mutation.world import World
from harness.plans.build import Asked, ask
from harness.records.finding import Verdict
from harness.records.fixture import Fixture
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, ArmFacts, Counts, Declared, Recording, Reply, Run, Trace
from harness.records.replay import RecipeFile

ENGINE = textwrap.dedent(
    '''\
    """Doubles numbers, and counts how it did."""
    import os


    def reply(number, arm):
        if number < 0:
            return "negative"
        if number == 99:
            return seldom(number)
        if arm == "lookup":
            return str(number + number)
        return str(2 * number)


    def seldom(number):
        return str(number * 2)


    def rounds(number, arm):
        return number if arm == "lookup" else 0


    def never_asked():
        return "nobody calls this"


    def main(arm, numbers):
        return [[reply(n, arm), rounds(n, arm)] for n in numbers]
    '''
)
FORCED_FAIL = """\
title = "lies about everything on the lookup arm"

[[edits]]
file = "toy/engine.py"
find = 'return str(number + number)'
replace = 'return "lie"'

[[edits]]
file = "toy/engine.py"
find = 'return number if arm == "lookup" else 0'
replace = 'return 77 if arm == "lookup" else 0'
"""
PLAIN = Start(id="plain", arm="plain", model="toy", requests=())
LOOKUP = Start(id="lookup", arm="lookup", model="toy", requests=(), reference="plain")
NOW = datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def judge_reply(evidence: Evidence, ledger: Ledger) -> None:
    for case, reference in evidence.compared("same-reply"):
        got, want = ledger.reply(case), ledger.reply(reference)
        if got and want:
            ledger.examine(case.start.id)
            ledger.compare(case, "text", want.text, got.text)


def judge_counts(evidence: Evidence, ledger: Ledger) -> None:
    for case, _ in evidence.compared("exact-counts"):
        ledger.examine(case.start.id)
        counts = case.answer.counts
        ledger.compare(case, "rounds", case.request.body["n"] if case.request.body else None, counts.rounds if counts else None)


def judge_gate_only(evidence: Evidence, ledger: Ledger) -> None:
    """A check whose mutation slice is too small: it never asks for what its gate slice asks."""
    for case in evidence.cases("wide"):
        reply = ledger.reply(case)
        if reply and case.request.body:
            ledger.examine(case.start.id)
            ledger.compare(case, "text", str(2 * case.request.body["n"]), reply.text)


CHECKS = (
    Check("same-reply", Verdict.MISMATCH, "The lookup arm replies as the plain arm does.", judge_reply),
    Check("exact-counts", Verdict.WRONG_PATH, "The rounds are the number.", judge_counts),
    Check("wide", Verdict.MISMATCH, "Every reply is twice the number.", judge_gate_only),
)


def request(number: int, check: str) -> Request:
    return Request(id=f"n={number}", checks=(check,), body={"n": number})


def slice_of(check: str, mutation: Sequence[int], gate: Sequence[int]) -> Any:
    def asked(_fixture: Fixture, tier: Tier) -> Iterable[Asked]:
        for number in mutation if tier is Tier.MUTATION else gate:
            yield from ask(request(number, check), PLAIN, LOOKUP)

    return asked


SLICES = {
    "same-reply": slice_of("same-reply", [3], [3, 5]),
    "exact-counts": slice_of("exact-counts", [3], [3, 4]),
    "wide": slice_of("wide", [3], [3, 99]),
}
FIXTURE = Fixture(recipe="toy@0", model="/nowhere", packs={}, streams=(), vocab_bound=256, block_sizes={})


class Exit(Exception):  # noqa: N818  # what os._exit raises in a toy process
    """A toy process that ends with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class ToyArena:
    """Runs the toy of an overlay in a namespace of its own per start. What it was asked is kept."""

    grounds: list[Ground] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    def record(self, plan: Plan, ground: Ground) -> Run:
        self.grounds.append(ground)
        self.plans.append(plan)
        recordings = tuple(self.start(start, ground) for start in plan.starts)
        declared = Declared(arms={"plain": ArmFacts(), "lookup": ArmFacts(drafter="lookup")})
        return Run(plan=plan, subject="toy", declared=declared, recordings=recordings)

    def start(self, start: Start, ground: Ground) -> Recording:
        numbers = [each.body["n"] for each in start.requests if each.body]
        status, said = perform(ground, start.arm, numbers)
        failures = {0: "", 7: f"{CPU_BUDGET}: spent", 8: "died with status 8"}
        failure = failures.get(status, f"never ready: status {status}")
        pairs = zip(start.requests, said or [["", 0]] * len(numbers), strict=True)
        answers = [answer(each.id, text, rounds, bool(failure)) for each, (text, rounds) in pairs]
        return Recording(
            subject="toy",
            start=start,
            answers=tuple(answers),
            trace=Trace(traced=True),
            log=(),
            exit_status=None,
            failure=failure,
            ready_line="" if failure.startswith("never") else "ready",
            seconds=0.1,
            cpu_seconds=0.1,
        )


def perform(ground: Ground, arm: str, numbers: list[int]) -> tuple[int, Any]:
    """Run the toy once and return (exit status, what it said); its marks go to the overlay's map."""
    assert ground.overlay is not None
    marks = ground.overlay / MARKS_FILE

    def hit(index: int) -> None:
        content = bytearray(marks.read_bytes())
        content[index] = 1
        marks.write_bytes(content)

    def leave(status: int) -> None:
        raise Exit(status)

    environment = {**(ground.environment or {}), "TOY_IS_FRESH": str(int(ground.fresh))}
    modules = {MODULE: None, "os": SimpleNamespace(environ=environment, _exit=leave)}

    def load(name: str, *rest: Any) -> Any:
        return modules[name] if name in modules else __import__(name, *rest)

    scope: dict[str, Any] = {"__hit__": hit, "__builtins__": {**vars(builtins), "__import__": load}}
    try:
        exec((ground.overlay / "toy" / "engine.py").read_text(), scope)  # noqa: S102  # the text above, with one edit
        return 0, scope["main"](arm, numbers)
    except Exit as error:
        return error.status, None
    except Exception:
        return 1, None


def answer(request_id: str, text: str, rounds: int, is_lost: bool) -> Answer:
    if is_lost:
        return Answer(request_id=request_id, status=None, failure="not started")
    counts = Counts("spec", "lookup", rounds, 0, 0, 0, 1, 0, None, "-")
    reply = Reply(request_id, text, None, "stop", None, None, None)
    return Answer(request_id=request_id, status=200, reply=reply, counts=counts)


def entry(find: str, replace: str, *killers: str, name: str = "fault", **fields: Any) -> Entry:
    return Entry(
        id=name,
        title="A fault.",
        why="the table",
        kind=Kind.SEED,
        killers=killers or ("same-reply",),
        file="toy/engine.py",
        find=find,
        replace=replace,
        **fields,
    )


def mutant(find: str, replace: str, *killers: str, **fields: Any) -> Mutant:
    made = entry(find, replace, *killers, **fields)
    return Mutant(made, "family", (Edit(made.file, find, replace),))


def source(root: Path) -> Source:
    (root / "toy").mkdir(parents=True, exist_ok=True)
    (root / "toy" / "__init__.py").write_text("")
    (root / "toy" / "engine.py").write_text(ENGINE)
    return Source(root, ("toy",))


RECIPES = (RecipeFile("toy.toml", "toy@1", "name = 'toy'"),)


def laws() -> Laws:
    return laws_of(FIXTURE, CHECKS, SLICES, ("plain", "lookup"), Origin("toy", RECIPES))


def workshop(tmp_path: Path, run_nodes: Any = None) -> Workshop:
    overlays = tmp_path / "overlays"
    overlays.mkdir(parents=True)
    made = Workshop(source(tmp_path / "tree"), laws(), overlays)
    return made if run_nodes is None else Workshop(made.source, made.laws, made.folder, run_nodes)


def catalogue(root: Path, *mutants: Entry, forced_fail: str = FORCED_FAIL) -> None:
    """Write mutants as a family file of the toy's catalogue."""
    folder = root / "mutants" / "toy"
    (folder / "probes").mkdir(parents=True, exist_ok=True)
    tables = [
        {key: value for key, value in msgspec.to_builtins(each).items() if value not in (None, "", [], {})} for each in mutants
    ]
    (folder / "family.toml").write_text("".join(_table(each) for each in tables))
    if forced_fail:
        (folder / "probes" / "forced-fail.toml").write_text(forced_fail)


def _table(table: dict[str, Any]) -> str:
    """Return strings, numbers and lists as TOML, which writes them as JSON does."""
    return "[[mutant]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


def world(root: Path, *arenas: Arena) -> Any:
    """Return what builds the toy's world for `mutate`."""

    @contextmanager
    def open_arenas(_workdir: Path) -> Iterator[Sequence[Arena]]:
        yield arenas or (ToyArena(), ToyArena())

    return lambda *_: World(source(root), laws(), open_arenas)


def surroundings(**environment: str) -> Surroundings:
    console = Console(file=StringIO(), force_terminal=False, width=200)
    return Surroundings(console, NOW, environment)


def printed(around: Surroundings) -> str:
    assert isinstance(around.console.file, StringIO)
    return around.console.file.getvalue()


def node_run(failed: Sequence[str] = (), passed: Sequence[str] = (), broken: Sequence[str] = (), **fields: Any) -> NodeRun:
    return NodeRun(tuple(failed), tuple(passed), tuple(broken), fields.get("events", ()), fields.get("output", ""), 0.1)
