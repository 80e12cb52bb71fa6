"""Probes of the machinery itself, run before any mutant is believed.

A clean run made twice, once in fresh processes; a neutral mutant that must survive; a forced-fail mutant on which every check
that judges the subject must fail; planting and taking back, which must leave a tree byte-identical; a working tree that nobody
touched.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.mutation.arena import Arena, Ground, budgets_of, events_of, log_of
from harness.mutation.edits import Edit, problem
from harness.mutation.entry import TEST, Mutant
from harness.mutation.laws import CONTROL
from harness.mutation.lint import plant, unviable
from harness.mutation.overlay import Source, make_overlay, tree_hash, write
from harness.mutation.verdict import Attempt, attempt
from harness.mutation.workshop import Clean, Workshop
from harness.records.finding import Finding
from harness.records.outcome import ProbeResult
from harness.records.plan import Plan
from harness.report.escape import printable

COMMENT = "\n# a neutral mutant: a comment\n"
_SHOWN = 12  # names that one message holds


def clean_twice(first: Clean, second: Clean) -> ProbeResult:
    """Compare two clean runs: no finding, no failed start, and the same number of answers looked at by each check."""
    troubles = [f"{printable(line)}" for clean in (first, second) for line in clean.problems]
    troubles += [told(finding) for clean in (first, second) for finding in clean.unexpected]
    if not troubles and _examined(first) != _examined(second):
        troubles.append(f"the two runs examined {_examined(first)} and {_examined(second)} answers")
    if troubles:
        return ProbeResult(
            "clean-twice", holds=False, message=_some(troubles), log="\n".join([*troubles, first.output, second.output])
        )
    num_checks = len(first.judgement.results) if first.judgement else 0
    num_nodes = len(first.nodes.passed) if first.nodes else 0
    return ProbeResult("clean-twice", holds=True, message=f"{num_checks} checks and {num_nodes} test nodes pass, twice")


def neutral_texts(source: Source) -> dict[str, str]:
    """Return every module of the packages with a comment at its end."""
    texts = {}
    for package in source.packages:
        for path in sorted((source.root / package).rglob("*.py")):
            file = path.relative_to(source.root).as_posix()
            text = source.read(file)
            assert text is not None, f"{file} was there a moment ago"
            texts[file] = text + COMMENT
    return texts


def neutral(workshop: Workshop, plan: Plan, clean: Clean, arena: Arena) -> ProbeResult:
    """Run a mutant that changes nothing but comments: it must survive."""
    seen, log = _seen(workshop, neutral_texts(workshop.source), plan, clean, arena)
    return msgspec.structs.replace(neutral_verdict(seen), log=log)


def neutral_verdict(seen: Attempt) -> ProbeResult:
    """Judge the neutral mutant."""
    if seen.failed or seen.events or not seen.asked:
        words = [*seen.events, *(f"{name} failed" for name in seen.failed)] or ["nothing was asked of it"]
        return ProbeResult("neutral", holds=False, message=f"a comment was killed: {_some(words)}")
    return ProbeResult("neutral", holds=True, message=f"a comment survives {len(seen.asked)} checks")


def forced_fail(workshop: Workshop, edits: Sequence[Edit], plan: Plan, clean: Clean, arena: Arena) -> ProbeResult:
    """Run the mutant that corrupts everything a subject says: every check that judges the subject must fail on it."""
    stale = [why for edit in edits if (why := problem(workshop.source.read(edit.file), edit))]
    if not stale:
        stale = [why] if (why := unviable(edits, workshop.source.read)) else []
    if stale:
        return ProbeResult("forced-fail", holds=False, message=_some(stale), stale=True)
    seen, log = _seen(workshop, plant(edits, workshop.source.read), plan, clean, arena)
    return msgspec.structs.replace(forced_fail_verdict(seen), log=log)


def forced_fail_verdict(seen: Attempt) -> ProbeResult:
    """Judge the forced-fail mutant. A subject that died or never started has not been judged."""
    if seen.events:
        return ProbeResult("forced-fail", holds=False, message=f"the subject {_some(seen.events)}; it must live and lie")
    proper = [check for check in seen.asked if not check.startswith(CONTROL)]
    silent = tuple(check for check in proper if check not in seen.failed)
    if silent or not proper:
        return ProbeResult("forced-fail", False, f"silent on a subject that lies: {_some(silent or ['all'])}", silent)
    return ProbeResult("forced-fail", holds=True, message=f"all {len(proper)} checks fail on a subject that lies")


def apply_revert(workshop: Workshop, mutants: Iterable[Mutant]) -> ProbeResult:
    """Plant every mutant in one tree and take it back: each time the tree must be what it was, byte for byte."""
    source = workshop.source
    num_planted = 0
    with tempfile.TemporaryDirectory(dir=workshop.folder, prefix="revert-") as name:
        root = make_overlay(source, {}, Path(name))
        before = tree_hash(root, source.packages)
        for mutant in mutants:
            texts = plant(mutant.edits, source.read)
            write(root, texts)
            if texts and tree_hash(root, source.packages) == before:
                return ProbeResult("apply-revert", holds=False, message=f"{mutant.id}: planted, and nothing has changed")
            _revert(root, source, texts)
            if tree_hash(root, source.packages) != before:
                return ProbeResult("apply-revert", holds=False, message=f"{mutant.id}: taken back, and the tree is not the same")
            num_planted += 1
    return ProbeResult("apply-revert", holds=True, message=f"{num_planted} mutants planted and taken back, byte for byte")


def working_tree(before: str, after: str) -> ProbeResult:
    """Compare the digests of the working tree when its snapshot was taken and after the run."""
    if before != after:
        return ProbeResult(
            "working-tree", holds=False, message="the working tree changed during the run; leave it alone and repeat"
        )
    return ProbeResult("working-tree", holds=True, message=f"untouched ({before[:12]})")


def nodes_neutral(workshop: Workshop, nodes: Sequence[str]) -> ProbeResult:
    """Run test nodes against a tree that differs in comments alone: they must pass."""
    with workshop.overlay(neutral_texts(workshop.source), with_tests=True) as root:
        ran = workshop.run_nodes(root, nodes, None)
    names = [TEST + node for node in (*ran.failed, *ran.passed)]
    seen = Attempt(tuple(names), tuple(TEST + node for node in ran.failed), ran.events)
    return msgspec.structs.replace(neutral_verdict(seen), log=ran.output)


def _seen(workshop: Workshop, texts: Mapping[str, str], plan: Plan, clean: Clean, arena: Arena) -> tuple[Attempt, str]:
    """Record and judge mutated texts; return what was seen and its log."""
    assert clean.run is not None
    with workshop.overlay(texts) as root:
        run = arena.record(plan, Ground(overlay=root, budgets=budgets_of(clean.run)))
    judgement = workshop.laws.judge(run)
    asked = [result.check for result in judgement.results]
    seen = attempt(asked, clean.findings, judgement.findings, events_of(run, clean.run))
    log = [printable(line) for line in log_of(run)] + [told(finding) for finding in seen.findings]
    return seen, "\n".join(log)


def _revert(root: Path, source: Source, texts: Mapping[str, str]) -> None:
    for file in texts:
        original = source.read(file)
        if original is None:
            (root / file).unlink()
        else:
            write(root, {file: original})


def told(finding: Finding) -> str:
    """Return a finding in one line."""
    return printable(f"{finding.check} at {finding.start} {finding.request}".rstrip() + f": {finding.message}")


def _examined(clean: Clean) -> dict[str, int]:
    results = clean.judgement.results if clean.judgement else ()
    return {result.check: sum(result.examined.values()) for result in results}


def _some(things: Iterable[object]) -> str:
    words = [str(each) for each in things]
    return "; ".join(words[:_SHOWN]) + (f"; and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")
