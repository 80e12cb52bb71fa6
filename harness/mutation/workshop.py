"""Overlays made and clean runs kept: what all mutants of one run share. Several threads use it, each with an arena of its own."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.mutation.arena import Arena, Ground, log_of
from harness.mutation.entry import TEST
from harness.mutation.laws import Laws
from harness.mutation.nodes import NodeRun, run_nodes
from harness.mutation.overlay import Source, make_overlay
from harness.mutation.part import part_of, part_of_nodes
from harness.records.budget import Budget
from harness.records.finding import Finding, Judgement
from harness.records.plan import Plan
from harness.records.recording import Run

RunNodes = Callable[[Path, Sequence[str], Budget | None], NodeRun]


@dataclass(frozen=True, slots=True)
class Clean:
    """The clean run of one plan, or of one set of test nodes."""

    problems: tuple[str, ...]  # starts and nodes that fail without any fault
    output: str = ""  # the end of what the test nodes printed, where one is a problem
    run: Run | None = None
    judgement: Judgement | None = None
    nodes: NodeRun | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the checks found without any fault planted, known faults of the subject included."""
        return self.judgement.findings if self.judgement else ()

    @property
    def unexpected(self) -> tuple[Finding, ...]:
        """What no known fault explains: the baseline is red."""
        return tuple(finding for finding in self.findings if not finding.known)


@dataclass(slots=True)
class Workshop:
    """A snapshot of the source, the laws that it is judged by, and the clean runs made so far."""

    source: Source
    laws: Laws
    folder: Path  # where overlays are made
    run_nodes: RunNodes = run_nodes
    _clean: dict[bytes, Clean] = field(default_factory=dict)
    _whole: list[Clean] = field(default_factory=list)  # of which parts may be taken
    _locks: dict[bytes, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def overlay(self, texts: Mapping[str, str], *, with_tests: bool = False) -> Iterator[Path]:
        """Make an overlay with these texts in it, and remove it at the end."""
        target = Path(tempfile.mkdtemp(dir=self.folder, prefix="overlay-"))
        try:
            yield make_overlay(self.source, texts, target, with_tests=with_tests)
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def clean_plan(self, plan: Plan, arena: Arena) -> Clean:
        """Return the clean run of a plan: a part of a larger one that is clean as such, else recorded, at most once."""
        return self._once(msgspec.json.encode(plan), lambda: self._clean_part(plan) or self.record_clean(plan, arena))

    def record_clean(self, plan: Plan, arena: Arena, *, fresh: bool = False) -> Clean:
        """Record the plan against the unchanged snapshot and judge it."""
        with self.overlay({}) as root:
            run = arena.record(plan, Ground(overlay=root, fresh=fresh))
        return Clean(tuple(log_of(run)), "", run, self.laws.judge(run))

    def clean_nodes(self, nodes: Sequence[str]) -> Clean:
        """Return the clean run of some test nodes: a part of a larger one, else made, at most once."""
        return self._once("\0".join(nodes).encode(), lambda: self._clean_node_part(nodes) or self.run_clean_nodes(nodes))

    def run_clean_nodes(self, nodes: Sequence[str]) -> Clean:
        """Run test nodes against the unchanged snapshot."""
        with self.overlay({}, with_tests=True) as root:
            ran = self.run_nodes(root, nodes, None)
        problems = [f"{TEST}{node} fails without any fault" for node in ran.failed]
        problems += [f"{TEST}{node} has no result without any fault" for node in ran.broken]
        return Clean(tuple(problems), ran.output if problems else "", nodes=ran)

    @property
    def cleans(self) -> tuple[Clean, ...]:
        """Every clean run that was kept."""
        with self._lock:
            return tuple(self._clean.values())

    def keep(self, clean: Clean) -> None:
        """Keep a clean run that was made elsewhere: of its own plan or nodes, and of each part of them."""
        key = msgspec.json.encode(clean.run.plan) if clean.run else b""
        with self._lock:
            self._clean[key] = clean
            self._whole.append(clean)

    def _clean_part(self, plan: Plan) -> Clean | None:
        for whole in self._whole:
            part = part_of(whole.run, plan) if whole.run and not whole.problems else None
            clean = Clean((), "", part, self.laws.judge(part)) if part else None
            if clean and not clean.unexpected:
                return clean
        return None

    def _clean_node_part(self, nodes: Sequence[str]) -> Clean | None:
        for whole in self._whole:
            part = part_of_nodes(whole.nodes, nodes) if whole.nodes and not whole.problems else None
            if part:
                return Clean((), nodes=part)
        return None

    def _once(self, key: bytes, make: Callable[[], Clean]) -> Clean:
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            known = self._clean.get(key)
            if known is None:
                known = make()
                with self._lock:
                    self._clean[key] = known
            return known
