"""Sequences of requests that hypothesis makes up, asked of a real subject: after each, a probe is what it is alone.

A sequence that fails is shrunk to the shortest that still does, and kept as a finding is: `draftproof replay FILE` repeats it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from harness.checks.judge import judge
from harness.checks.registry import ALL_CHECKS
from harness.fabricate.located import Located
from harness.fabricate.store import fabricate
from harness.gate import DEFAULT_RECIPE
from harness.mutation.recipes import recipe_files
from harness.oracle.expect import Oracle
from harness.oracle.resume import num_prefill_passes
from harness.plans.order import CONTEXT, LONG_BUDGET, PROBE, PROBE_DEADLINE_S
from harness.plans.prefix import spliced, turned
from harness.plans.requests import completion, streamed
from harness.plans.starts import PLAIN
from harness.plans.streams import continued, joined
from harness.records.files import write_json
from harness.records.finding import Finding
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, Recording, Run, Trace
from harness.records.replay import Attempt, Replay
from harness.report.text import findings_text
from harness.runs.driver import Setting, record_start
from harness.subjects.description import load_description
from harness.subjects.subject import RunningSubject
from harness.subjects.warm import WarmLauncher

CHECK = "request-order"
FAIL_PASS = 60
WIDTH = 16
BEYOND = 32  # tokens of a plain reply: more of one that breaks off than a later prompt holds
STREAMS = ("main-1", "main-2", "main-3", "repeat-1", "hit-2", "miss-1", "decoy-1")
UNTRACED = Trace(traced=False)


class Bench:
    """What the sequences of one arm share: a warm column, and what the probe is undisturbed."""

    def __init__(self, arm: Start, workdir: Path, replay_path: Path, overlay: Path | None = None) -> None:
        self.arm = arm
        self.replay_path = replay_path
        self.fixture = fabricate(DEFAULT_RECIPE)
        self.description = load_description("forward-serve")
        self._locator = Located(self.fixture)
        self._setting = Setting("forward-serve", self._locator, overlay)
        self._launcher = WarmLauncher(self.description, workdir, None, traced=False)
        self.known = tuple(record_start(start, self._setting, self._launcher) for start in self._known_starts())
        self._expectations = Oracle(self._locator).completed(self._run((), ())).expectations

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._launcher.close()

    def start(self, start: Start) -> RunningSubject:
        """Start the subject."""
        pack = self._locator.pack(start.pack) if start.pack else None
        return self._launcher.start(start, self._locator.model(start.model), pack, self._setting.overlay)

    def probe(self, label: str, role: str = "probe") -> Request:
        """Return the probe under a label."""
        request = completion(self.fixture.stream(PROBE), 24, CHECK, role=role, label=label)
        return msgspec.structs.replace(request, deadline_s=PROBE_DEADLINE_S)

    def judged(self, start: Start, answers: Sequence[Answer]) -> tuple[Plan, tuple[Finding, ...]]:
        """Judge what a start answered so far, beside what is known. Returns the plan that was judged too."""
        run = self._run((start,), (Recording("forward-serve", start, tuple(answers), UNTRACED, (), None),))
        return run.plan, judge(run, ALL_CHECKS).findings

    def keep(self, plan: Plan, finding: Finding) -> None:
        """Write what repeats a finding."""
        attempts = (Attempt("the sequence", plan),)
        write_json(self.replay_path, Replay("forward-serve", recipe_files(DEFAULT_RECIPE), finding, attempts, traced=False))

    def _known_starts(self) -> tuple[Start, ...]:
        """The probe alone and once more on this arm; and the plain replies that an arm with a cache is predicted from."""
        alone = msgspec.structs.replace(
            self.arm, id=f"alone/{self.arm.arm}", requests=(self.probe("alone", "alone"), self.probe("once-more"))
        )
        if self.arm.reference is None:
            return (alone,)
        plain = [completion(self.fixture.stream(name), BEYOND, CHECK) for name in STREAMS]
        return msgspec.structs.replace(PLAIN, requests=(self.probe("plain"), *plain)), alone

    def _run(self, starts: tuple[Start, ...], recordings: tuple[Recording, ...]) -> Run:
        everything = (*(recording.start for recording in self.known), *starts)
        plan = Plan(Tier.DEEP, self.fixture.recipe, everything, (CHECK,))
        expectations = getattr(self, "_expectations", None)
        declared = self.description.declared()
        return Run(plan, "forward-serve", declared, (*self.known, *recordings), expectations=expectations)


class OrderMachine(RuleBasedStateMachine):
    """Disturbances of every kind in any order, each with the probe behind it."""

    bench: ClassVar[Bench]

    @initialize(may_fail=st.booleans())
    def begin(self, may_fail: bool) -> None:
        """Start a subject; on some a pass will fail."""
        parameters = {**self.bench.arm.parameters, **({"fail_pass": FAIL_PASS} if may_fail else {})}
        self.start = msgspec.structs.replace(self.bench.arm, id=f"sequence/{self.bench.arm.arm}", parameters=parameters)
        self.subject = self.bench.start(self.start)
        self.asked: list[Request] = []
        self.answers: list[Answer] = []
        self.is_to_fail = may_fail
        self.num_passes = 0
        self.num_turns = 0

    @rule(name=st.sampled_from(STREAMS), budget=st.integers(1, 24))
    def short(self, name: str, budget: int) -> None:
        self._disturb(completion(self._stream(name), budget, CHECK, role="short"))

    @rule()
    def long(self) -> None:
        self._disturb(completion(joined("all", self.bench.fixture.streams), 64, CHECK, role="long"))

    @rule(name=st.sampled_from(STREAMS), place=st.integers(0, 20), size=st.integers(1, 3))
    def stopped(self, name: str, place: int, size: int) -> None:
        source = self._stream(name)
        self._disturb(completion(source, 24, CHECK, role="stopped", stop=[source.reply[place : place + size]]))

    @rule(name=st.sampled_from(STREAMS), seed=st.integers(0, 3))
    def sampled(self, name: str, seed: int) -> None:
        self._disturb(completion(self._stream(name), 12, CHECK, role="sampled", temperature=0.8, seed=seed))

    @rule(fields=st.sampled_from([{"max_tokens": 0}, {"stop": ""}, {"no_such_field": 1}, {"prompt": [1] * CONTEXT}]))
    def refused(self, fields: dict[str, object]) -> None:
        good = completion(self._stream("main-1"), 4, CHECK, role="refused", label=next(iter(fields)))
        bad = msgspec.structs.replace(good, body={**(good.body or {}), **fields}, prompt_ids=(), expect=400)
        self._disturb(bad)

    @rule(name=st.sampled_from(STREAMS), num_chunks=st.integers(1, 4))
    def cancelled(self, name: str, num_chunks: int) -> None:
        self._disturb(streamed(self._stream(name), LONG_BUDGET, CHECK, role="cancelled", leave_after_chunks=num_chunks))

    @precondition(lambda self: self.is_to_fail)
    @rule()
    def failed(self) -> None:
        self._disturb(self._failing())

    @rule(name=st.sampled_from((PROBE, *STREAMS)), num_tokens=st.integers(1, 23))
    def cached(self, name: str, num_tokens: int) -> None:
        """A prompt and what the subject said after it, or the beginning of the probe's own."""
        source, probe = self._stream(name), self._stream(PROBE)
        for prompt in (source, continued(source, num_tokens), turned(source, probe), spliced(probe, num_tokens % 15 + 1, source)):
            self._ask((completion(prompt, 3, CHECK, role="cached"),))
        self._probe()

    @rule(names=st.lists(st.sampled_from(STREAMS), min_size=2, max_size=4))
    def concurrent(self, names: list[str]) -> None:
        requests = [completion(self._stream(name), 12, CHECK, role="concurrent", label=str(at)) for at, name in enumerate(names)]
        self._disturb(*(msgspec.structs.replace(one, group=f"together-{self.num_turns}") for one in requests))

    def teardown(self) -> None:
        """End the subject."""
        if hasattr(self, "subject"):
            self.subject.end()

    def _stream(self, name: str):  # type: ignore[no-untyped-def]
        return self.bench.fixture.stream(name)

    def _failing(self) -> Request:
        failing = completion(self._stream("main-1"), LONG_BUDGET, CHECK, role="failed")
        return msgspec.structs.replace(failing, expect=500)

    def _disturb(self, *requests: Request) -> None:
        self._ask(requests)
        self._probe()

    def _probe(self) -> None:
        self._ask((self.bench.probe(f"probe-{self.num_turns}"),))
        start = msgspec.structs.replace(self.start, requests=tuple(self.asked))
        plan, findings = self.bench.judged(start, self.answers)
        if findings:
            self.bench.keep(plan, findings[0])
            raise AssertionError(f"{findings_text(findings)}\nrepeat: draftproof replay {self.bench.replay_path}")

    def _ask(self, requests: Sequence[Request]) -> None:
        """Ask requests at once; the pass that fails is let into no request but the one that is to fail."""
        most = sum(-(-len(one.prompt_ids) // WIDTH) + one.max_tokens for one in requests)
        is_failing = any("failed" in one.roles for one in requests)
        if self.is_to_fail and not is_failing and self.num_passes + most >= FAIL_PASS:
            self._ask((self._failing(),))
        named = tuple(msgspec.structs.replace(one, id=f"{self.num_turns}/{one.id}") for one in requests)
        self.num_turns += 1
        answers = self.subject.ask_all(named) if len(named) > 1 else (self.subject.ask(named[0]),)
        self.asked += named
        self.answers += answers
        self.num_passes += sum(map(_passes_of, named, answers))
        self.is_to_fail = self.is_to_fail and not is_failing


def _passes_of(request: Request, answer: Answer) -> int:
    if answer.counts is None or answer.counts.cached is None or answer.counts.num_passes is None:
        return 0
    return num_prefill_passes(len(request.prompt_ids), answer.counts.cached, WIDTH) + answer.counts.num_passes
