"""A whole mutation run over two columns: probes first, then every mutant as columns come free, a report at the end.

It writes no file and prints nothing: a watcher is told of everything as it happens.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from harness.mutation import probes
from harness.mutation.arena import Arena
from harness.mutation.bench import Finished, first_ask, run_mutant
from harness.mutation.edits import Edit
from harness.mutation.entry import Acceptance, Mutant
from harness.mutation.lint import Problem
from harness.mutation.look import Ask, plan_of
from harness.mutation.matrix import unproven
from harness.mutation.overlay import tree_hash
from harness.mutation.planted import place_of
from harness.mutation.transparent import transparent
from harness.mutation.workshop import Clean, Workshop
from harness.records.outcome import MutantResult, MutationReport, Outcome, ProbeResult
from harness.records.plan import Tier

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """What a run is about. Mutants that `done` holds, of the same fingerprint, are not run again."""

    subject: str
    mutants: tuple[Mutant, ...]
    problems: tuple[Problem, ...]  # of mutants that cannot be run
    forced_fail: tuple[Edit, ...]
    tree_hash: Callable[[], str]  # of the working tree, which must stay what the snapshot was taken of
    acceptances: Mapping[str, Acceptance] = field(default_factory=dict)  # in force
    catalogue_problems: tuple[str, ...] = ()
    done: Mapping[str, MutantResult] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    full: bool = False
    whole: bool = True  # the whole catalogue; False: a selection
    not_applicable: Mapping[str, str] = field(default_factory=dict)  # mutants that the subject cannot have, and why
    is_relayed: bool = False  # faults of the relay: nothing is planted, and a relay without a fault must change nothing


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who is told what happens, always from the thread that runs the job."""

    probe: Callable[[ProbeResult], None]
    begin: Callable[[int, int], None]  # (mutants to run, mutants known already)
    finished: Callable[[Finished], None]  # a mutant that was run, or could not be


class Columns:
    """A pool of arenas, each used by one thread at a time. With no arena, as many threads run test nodes alone."""

    def __init__(self, arenas: Sequence[Arena | None]) -> None:
        self._free: queue.SimpleQueue[Arena | None] = queue.SimpleQueue()
        for arena in arenas:
            self._free.put(arena)
        self._pool = ThreadPoolExecutor(max_workers=len(arenas), thread_name_prefix="mutant")

    def submit(self, work: Callable[[Arena | None], T]) -> Future[T]:
        """Have a free column do the work."""

        def run() -> T:
            arena = self._free.get()
            try:
                return work(arena)
            finally:
                self._free.put(arena)

        return self._pool.submit(run)

    @contextmanager
    def open(self) -> Iterator[Columns]:
        """Close the pool at the end; what has not begun is dropped."""
        try:
            yield self
        finally:
            self._pool.shutdown(cancel_futures=True)


def run_job(job: Job, workshop: Workshop, columns: Columns, watcher: Watcher) -> MutationReport:
    """Run the probes and the mutants and return the report. A red baseline ends the run before the first mutant."""
    began = time.monotonic()
    for problem in job.problems:
        watcher.finished(_not_run(job, workshop, problem))
    results = {problem.mutant_id: _not_run(job, workshop, problem).result for problem in job.problems}
    runnable = [mutant for mutant in job.mutants if mutant.id not in results]
    found = _probe(job, runnable, workshop, columns, watcher)
    probed = time.monotonic()
    num_run = 0
    if all(probe.holds or probe.unproven or probe.stale for probe in found):
        num_run = sum(not _is_done(job, mutant) for mutant in runnable)
        results |= _run_all(job, runnable, workshop, columns, watcher)
    mutants_seconds = time.monotonic() - probed
    found.append(probes.working_tree(tree_hash(workshop.source.root, workshop.source.names), job.tree_hash()))
    watcher.probe(found[-1])
    ordered = tuple(results[mutant.id] for mutant in job.mutants if mutant.id in results)
    return MutationReport(
        subject=job.subject,
        recipe=workshop.laws.recipe,
        checks=workshop.laws.checks,
        results=ordered,
        probes=tuple(found),
        unproven=unproven(_claimed(job, workshop), ordered) if len(ordered) == len(job.mutants) else (),
        not_tested=_not_tested(workshop),
        not_applicable=dict(job.not_applicable),
        baseline=_red(workshop),
        problems=job.catalogue_problems,
        whole=job.whole,
        seconds=time.monotonic() - began,
        num_run=num_run,
        mutants_seconds=mutants_seconds,
    )


def accepted(result: MutantResult, acceptance: Acceptance | None) -> MutantResult:
    """Turn a survivor into an accepted one where an acceptance is in force; nothing else is ever accepted."""
    if acceptance is None or result.outcome not in (Outcome.SURVIVED, Outcome.NOT_REACHED):
        return result
    reason = f"{acceptance.reason} (until {acceptance.expires})"
    return msgspec.structs.replace(result, outcome=Outcome.ACCEPTED, reason=reason)


def _run_all(
    job: Job, runnable: Sequence[Mutant], workshop: Workshop, columns: Columns, watcher: Watcher
) -> dict[str, MutantResult]:
    known = {mutant.id: job.done[mutant.id] for mutant in runnable if _is_done(job, mutant)}
    waiting = sorted((mutant for mutant in runnable if mutant.id not in known), key=lambda mutant: -_cost(job, workshop, mutant))
    watcher.begin(len(waiting), len(known))
    results = dict(known)
    futures = [columns.submit(_work(job, workshop, mutant)) for mutant in waiting]
    try:
        for future in as_completed(futures):
            finished = future.result()
            watcher.finished(finished)
            results[finished.result.id] = finished.result
    finally:
        for future in futures:
            future.cancel()
    return results


def _work(job: Job, workshop: Workshop, mutant: Mutant) -> Callable[[Arena | None], Finished]:
    def work(arena: Arena | None) -> Finished:
        finished = run_mutant(workshop, mutant, arena, full=job.full, fingerprint=job.fingerprints.get(mutant.id, ""))
        result = accepted(finished.result, job.acceptances.get(mutant.id))
        return replace(finished, result=result)

    return work


def _cost(job: Job, workshop: Workshop, mutant: Mutant) -> int:
    """Return how many tokens the first look at a mutant asks for: the longest begin first, so that none runs on alone at the end."""
    ask = first_ask(workshop, mutant, full=job.full)
    starts = plan_of(workshop, ask).starts if ask.checks else ()
    return sum(request.max_tokens for start in starts for request in start.requests)


def _is_done(job: Job, mutant: Mutant) -> bool:
    former = job.done.get(mutant.id)
    return former is not None and former.fingerprint == job.fingerprints.get(mutant.id)


def _probe(job: Job, runnable: Sequence[Mutant], workshop: Workshop, columns: Columns, watcher: Watcher) -> list[ProbeResult]:
    """Run the probes side by side, and tell of them in one order."""
    found: list[ProbeResult] = []

    def tell(result: ProbeResult) -> None:
        found.append(result)
        watcher.probe(result)

    if not job.is_relayed:
        tell(columns.submit(lambda _: probes.apply_revert(workshop, runnable)).result())
    checks = _asked(job, workshop)
    nodes = tuple(dict.fromkeys(node for mutant in runnable for node in mutant.test_killers))
    plan_pair = [columns.submit(_record_clean(workshop, checks, fresh=fresh)) for fresh in (True, False)] if checks else []
    node_pair = [columns.submit(lambda _: workshop.run_clean_nodes(nodes)) for _ in range(2)] if nodes else []
    if plan_pair:
        _probe_checks(job, plan_pair, workshop, columns, tell)
    if node_pair:
        _probe_nodes(nodes, node_pair, workshop, columns, tell)
    return found


def _probe_checks(
    job: Job, pair: Sequence[Future[Clean]], workshop: Workshop, columns: Columns, tell: Callable[[ProbeResult], None]
) -> None:
    second, clean = pair[0].result(), pair[1].result()
    twice = probes.clean_twice(clean, second)
    workshop.keep(clean)
    tell(twice)
    if not twice.holds:
        return
    assert clean.run is not None
    plan = clean.run.plan
    if job.is_relayed:
        tell(columns.submit(lambda arena: transparent(workshop, plan, clean, _given(arena))).result())
        return
    harmless = columns.submit(lambda arena: probes.neutral(workshop, plan, clean, _given(arena)))
    lying = columns.submit(lambda arena: probes.forced_fail(workshop, job.forced_fail, plan, clean, _given(arena)))
    tell(harmless.result())
    tell(lying.result())


def _probe_nodes(
    nodes: Sequence[str],
    pair: Sequence[Future[Clean]],
    workshop: Workshop,
    columns: Columns,
    tell: Callable[[ProbeResult], None],
) -> None:
    first, second = pair[0].result(), pair[1].result()
    twice = probes.clean_twice(first, second)
    tell(twice)
    if twice.holds:
        workshop.keep(first)
        tell(columns.submit(lambda _: probes.nodes_neutral(workshop, nodes)).result())


def _record_clean(workshop: Workshop, checks: Collection[str], *, fresh: bool) -> Callable[[Arena | None], Clean]:
    plan = plan_of(workshop, Ask(tuple(checks), Tier.MUTATION))
    return lambda arena: workshop.record_clean(plan, _given(arena), fresh=fresh)


def _asked(job: Job, workshop: Workshop) -> tuple[str, ...]:
    """Return the checks that the probes are about: all, or those that a selection names."""
    named = {killer for mutant in job.mutants for killer in mutant.check_killers}
    return tuple(check for check in workshop.laws.checks if job.whole or check in named)


def _claimed(job: Job, workshop: Workshop) -> tuple[str, ...]:
    """Return the checks that must be the killer of a killed mutant: those that judge the subject and that it can show."""
    not_tested = _not_tested(workshop)
    return tuple(check for check in _asked(job, workshop) if check in workshop.laws.proper and check not in not_tested)


def _not_tested(workshop: Workshop) -> dict[str, str]:
    found: dict[str, str] = {}
    for clean in workshop.cleans:
        found |= clean.judgement.not_tested if clean.judgement else {}
    return found


def _red(workshop: Workshop) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(told for clean in workshop.cleans for told in (*clean.problems, *map(probes.told, clean.unexpected)))
    )


def _not_run(job: Job, workshop: Workshop, problem: Problem) -> Finished:
    mutant = next(each for each in job.mutants if each.id == problem.mutant_id)
    entry = mutant.entry
    result = MutantResult(
        id=entry.id,
        family=mutant.family,
        kind=entry.kind.value,
        title=entry.title,
        why=entry.why,
        outcome=problem.outcome,
        reason=problem.message,
        killers=entry.killers,
        place=place_of(mutant, workshop.source.read),
        missing=entry.killers,
        fingerprint=job.fingerprints.get(entry.id, ""),
    )
    return Finished(result, f"{entry.id}: {problem.outcome.value} {problem.message}\n", "")


def _given(arena: Arena | None) -> Arena:
    assert arena is not None, "checks need an arena"
    return arena
