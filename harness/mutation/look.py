"""One look at a mutant: plant it in a copy, record what its killers read, judge it against the clean run, and read its marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.mutation.arena import Arena, Ground, budgets_of, events_of, log_of
from harness.mutation.entry import TEST, Mutant
from harness.mutation.laws import restricted
from harness.mutation.lint import by_file, plant
from harness.mutation.marker import MODULE, Marked, mark, not_reached, runtime
from harness.mutation.nodes import can_import
from harness.mutation.overlay import write
from harness.mutation.verdict import Attempt, Event, attempt
from harness.mutation.workshop import Workshop
from harness.records.plan import Plan, Tier
from harness.records.recording import Run
from harness.report.escape import printable
from harness.report.text import findings_text

MARKS_FILE = "draftproof-marks.bin"


@dataclass(frozen=True, slots=True)
class Ask:
    """What one look asks: checks at a tier, test nodes, and how the subject is started."""

    checks: tuple[str, ...]
    tier: Tier
    nodes: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()  # () = all that the checks read
    fresh: bool = False
    with_marks: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen."""

    attempt: Attempt
    log: str
    not_reached: str = ""  # why the planted statement cannot have run; "" = it may have, or no claim can be made
    run: Run | None = None  # what was recorded of the checks that were asked


def look(workshop: Workshop, mutant: Mutant, arena: Arena | None, ask: Ask) -> Look:
    """Run a mutant once. `arena` may be None where no check is asked."""
    texts = plant(mutant.edits, workshop.source.read)
    marked = _marked(workshop, mutant) if ask.with_marks and mutant.edits else None
    with ExitStack() as stack:
        root = stack.enter_context(workshop.overlay(marked.texts if marked else texts, with_tests=bool(ask.nodes)))
        marks = _lay_marks(root, marked)
        parts: list[Attempt] = []
        run = None
        log: list[str] = [f"look: {_told(ask)}"]
        if ask.checks:
            assert arena is not None, "a look at checks needs an arena"
            run, seen = _record(workshop, mutant, arena, ask, root, log)
            parts.append(seen)
        if ask.nodes:
            parts.append(_nodes(workshop, mutant, ask, root, log))
        unreached = not_reached(marked, marks.read_bytes()) if marked and marks else ""
    if marked and marked.refusal:
        log.append(f"no claim whether it was reached: {marked.refusal}")
    return Look(_merged(parts), "\n".join(log), unreached, run)


def plan_of(workshop: Workshop, ask: Ask) -> Plan:
    """Return the plan of a look."""
    return restricted(workshop.laws.plan(ask.tier, ask.checks), ask.arms)


def _record(workshop: Workshop, mutant: Mutant, arena: Arena, ask: Ask, root: Path, log: list[str]) -> tuple[Run, Attempt]:
    plan = plan_of(workshop, ask)
    clean = workshop.clean_plan(plan, arena)
    assert clean.run is not None and clean.judgement is not None
    ground = Ground(
        overlay=root,
        environment=mutant.entry.env,
        relay=mutant.entry.relay or None,
        fresh=ask.fresh,
        budgets=budgets_of(clean.run, mutant.entry),
    )
    run = arena.record(plan, ground)
    judgement = workshop.laws.judge(run)
    events = list(events_of(run, clean.run))
    if Event.NO_START in events:
        told = can_import(root, by_file(mutant.edits))
        events += [Event.CANNOT_IMPORT] if told else []
        log += [f"import: {printable(line)}" for line in told.splitlines()]
    asked = [result.check for result in judgement.results]
    seen = attempt(asked, clean.findings, judgement.findings, events)
    log += [printable(line) for line in log_of(run)]
    log += [f"not tested: {name} ({printable(why)})" for name, why in judgement.not_tested.items()]
    log.append(findings_text(seen.findings) or "no finding that the clean run lacks")
    return run, seen


def _nodes(workshop: Workshop, mutant: Mutant, ask: Ask, root: Path, log: list[str]) -> Attempt:
    clean = workshop.clean_nodes(ask.nodes)
    assert clean.nodes is not None
    ran = workshop.run_nodes(root, ask.nodes, clean.nodes.budget(mutant.entry.cpu_budget_s, mutant.entry.wall_budget_s))
    bad = {*clean.nodes.failed, *clean.nodes.broken}  # what fails without the fault proves nothing about it
    log += [f"{TEST}{node}: {word}" for word, nodes in _words(ran.failed, ran.passed, ran.broken).items() for node in nodes]
    log += [f"  {printable(line)}" for line in ran.output.splitlines()[-40:]]
    return Attempt(
        asked=tuple(TEST + node for node in (*ran.failed, *ran.passed)),
        failed=tuple(TEST + node for node in ran.failed if node not in bad),
        events=ran.events,
    )


def _words(failed: Sequence[str], passed: Sequence[str], broken: Sequence[str]) -> Mapping[str, Sequence[str]]:
    return {"failed": failed, "passed": passed, "has no result": broken}


def _marked(workshop: Workshop, mutant: Mutant) -> Marked:
    files = by_file(mutant.edits)
    return mark({file: workshop.source.read(file) for file in files}, files)


def _lay_marks(root: Path, marked: Marked | None) -> Path | None:
    """Put the map and the module that writes to it into the overlay; None where there are no marks."""
    if marked is None or marked.refusal:
        return None
    path = root / MARKS_FILE
    path.write_bytes(bytes(marked.num_marks))
    path.chmod(0o666)
    write(root, {f"{MODULE}.py": runtime(path)})
    return path


def _merged(parts: Sequence[Attempt]) -> Attempt:
    return Attempt(
        asked=tuple(check for part in parts for check in part.asked),
        failed=tuple(check for part in parts for check in part.failed),
        events=tuple(event for event in Event if any(event in part.events for part in parts)),
        findings=tuple(finding for part in parts for finding in part.findings),
    )


def _told(ask: Ask) -> str:
    parts = [f"{ask.tier.value} plan of {', '.join(ask.checks)}" if ask.checks else ""]
    parts += [f"{len(ask.nodes)} test nodes" if ask.nodes else "", f"arms {', '.join(ask.arms)}" if ask.arms else ""]
    parts += ["fresh process" if ask.fresh else "", "with marks" if ask.with_marks else ""]
    return "; ".join(part for part in parts if part)
