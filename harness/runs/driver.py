"""Drive subjects through a plan: one recording per start, two columns side by side, each strictly one subject at a time.

The only room that makes subjects answer. It knows neither what a check wants nor how a subject is launched: a launcher starts
one, a locator finds the directories that a start names.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from harness.records.budget import Budget, Cause
from harness.records.plan import Plan, Request, Start
from harness.records.recording import Answer, Recording
from harness.subjects.column import NeverReadyError
from harness.subjects.subject import Ended, RunningSubject


class Launcher(Protocol):
    """Starts subjects, one at a time, on one core: cold, or forked from a warm parent."""

    def start(
        self,
        start: Start,
        model: Path,
        pack: Path | None = None,
        overlay: Path | None = None,
        *,
        cpu_budget_s: float | None = None,
        wall_budget_s: float | None = None,
    ) -> RunningSubject:
        """Start and wait until ready. Raises NeverReadyError with the subject's last lines."""

    def refused(self, start: Start, model: Path, pack: Path | None = None, overlay: Path | None = None) -> Ended:
        """Start what must refuse to start, and wait for its end."""

    def close(self) -> None:
        """End everything that this launcher started."""


class Locator(Protocol):
    """Finds the directories that a start names."""

    def model(self, name: str) -> Path:
        """Return the directory of a container or of one of its twins."""

    def pack(self, name: str) -> Path:
        """Return the directory of a draft pack or of one of its twins."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a plan is recorded against: whose answers, where its files are, which source, which budgets."""

    subject: str
    locator: Locator
    overlay: Path | None = None  # a source tree in place of the subject's own
    budgets: Mapping[str, Budget] = field(default_factory=dict)  # by start id; a start without an entry has none


OpenLauncher = Callable[[int], Launcher]  # core -> launcher
Progress = Callable[[Recording], None]


def record_plan(
    plan: Plan,
    setting: Setting,
    open_launcher: OpenLauncher,
    *,
    cores: Sequence[int] = (0, 1),
    progress: Progress = lambda _recording: None,
) -> tuple[Recording, ...]:
    """Make every start of the plan and return the recordings in the plan's order.

    One worker thread per core lives as long as its launcher (a column dies with the thread that started it). The first error
    that is not the subject's fault stops all workers and is raised here; a subject's own failure is written into its recording.
    An interrupt (Ctrl-C) ends all subjects at once.
    """
    waiting: queue.SimpleQueue[Start] = queue.SimpleQueue()
    for start in _costliest_first(plan.starts):
        waiting.put(start)
    recordings: dict[str, Recording] = {}
    launchers: list[Launcher] = []
    errors: list[BaseException] = []
    stop = threading.Event()

    def work(core: int) -> None:
        try:
            launcher = open_launcher(core)
            launchers.append(launcher)
            try:
                while not stop.is_set():
                    try:
                        start = waiting.get_nowait()
                    except queue.Empty:
                        return
                    recording = record_start(start, setting, launcher)
                    recordings[start.id] = recording
                    progress(recording)
            finally:
                launcher.close()
        except BaseException as error:
            errors.append(error)
            stop.set()

    workers = [threading.Thread(target=work, args=(core,), name=f"column-{core}") for core in cores]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except BaseException:
        stop.set()
        for launcher in launchers:
            launcher.close()
        for worker in workers:
            worker.join()
        raise
    if errors:
        raise errors[0]
    return tuple(recordings[start.id] for start in plan.starts)


def record_start(start: Start, setting: Setting, launcher: Launcher) -> Recording:
    """Make one start, ask everything in order, end it, and return the recording; what the subject does is never raised."""
    began = time.monotonic()
    model = setting.locator.model(start.model)
    pack = setting.locator.pack(start.pack) if start.pack else None
    if start.expect == "refused":
        ended = launcher.refused(start, model, pack, setting.overlay)
        return _recording(start, setting, _unasked(start, "refused to start"), ended, began)
    budget = setting.budgets.get(start.id)
    try:
        subject = launcher.start(
            start,
            model,
            pack,
            setting.overlay,
            cpu_budget_s=budget.cpu_s if budget else None,
            wall_budget_s=budget.wall_s if budget else None,
        )
    except NeverReadyError as error:
        recording = _recording(start, setting, _unasked(start, "not started"), error.ended, began)
        return msgspec.structs.replace(recording, failure=_budget_word(error.ended) + str(error))
    answers: list[Answer] = []
    try:
        for together in _in_turns(start.requests):
            answers += subject.ask_all(together) if len(together) > 1 else map(subject.ask, together)
    finally:
        ended = subject.end()
    recording = _recording(start, setting, tuple(answers), ended, began)
    return msgspec.structs.replace(recording, ready_line=subject.ready_line, failure=_death(ended))


def _in_turns(requests: Sequence[Request]) -> Iterator[tuple[Request, ...]]:
    """Yield requests in the order in which they are sent: those of one group that follow each other together, others alone."""
    for group, followers in itertools.groupby(requests, key=lambda request: request.group):
        if group:
            yield tuple(followers)
        else:
            yield from ((request,) for request in followers)


def _unasked(start: Start, failure: str) -> tuple[Answer, ...]:
    return tuple(Answer(request_id=request.id, status=None, failure=failure) for request in start.requests)


def _recording(start: Start, setting: Setting, answers: tuple[Answer, ...], ended: Ended, began: float) -> Recording:
    return Recording(
        subject=setting.subject,
        start=start,
        answers=answers,
        trace=ended.trace,
        log=ended.log,
        exit_status=ended.exit_status,
        device=ended.device.path if ended.device else "",
        facts={"device": ended.device.fact} if ended.device else {},
        seconds=time.monotonic() - began,
        cpu_seconds=ended.cpu_seconds,
        peak_rss_mib=ended.peak_rss_mib,
    )


def _death(ended: Ended) -> str:
    """Say that a subject ended by itself before it was told to; "" where it lived."""
    if ended.cause is Cause.ENDED:
        return ""
    last = " | ".join(ended.log[-20:])
    return f"{_budget_word(ended)}died with status {ended.exit_status} before it was ended; its last lines: {last}"


def _budget_word(ended: Ended) -> str:
    return f"{Cause.CPU_BUDGET.value}: " if ended.cause is Cause.CPU_BUDGET else ""


def _costliest_first(starts: Sequence[Start]) -> list[Start]:
    """Order starts so that the longest do not come last and leave one column idle."""
    return sorted(starts, key=lambda start: -sum(request.max_tokens for request in start.requests))
