"""Drive subjects through a plan: one recording per start, two columns side by side, each strictly one subject at a time.

The only room that makes subjects answer. It knows neither what a check wants nor how a subject is launched: a launcher starts
one, a locator finds the directories that a start names.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from harness.errors import SubjectError
from harness.records.plan import Plan, Request, Start
from harness.records.recording import Answer, Recording, Trace


class Ended(Protocol):
    """How a subject ended, and what the tracer saw of it."""

    exit_status: int | None
    log: tuple[str, ...]
    trace: Trace
    cpu_seconds: float
    peak_rss_mib: float


class Subject(Protocol):
    """A running engine under test."""

    @property
    def ready_line(self) -> str:
        """The line with which it said that it is ready."""

    def ask(self, request: Request) -> Answer:
        """Send one request and return what came back; never raises for what the subject does."""

    def end(self) -> Ended:
        """End the process tree for certain and close its trace."""


class Launcher(Protocol):
    """Starts subjects, one at a time, on one core."""

    def start(self, start: Start, model: Path, pack: Path | None, overlay: Path | None = None) -> Subject:
        """Start and wait until ready. Raises StartError with the subject's last lines."""

    def refused(self, start: Start, model: Path, pack: Path | None, overlay: Path | None = None) -> Ended:
        """Start what must refuse to start, and wait for its end."""

    def close(self) -> None:
        """End everything that this launcher started."""


class Locator(Protocol):
    """Finds the directories that a start names."""

    def model(self, name: str) -> Path:
        """Return the directory of a container or of one of its twins."""

    def pack(self, name: str) -> Path:
        """Return the directory of a draft pack or of one of its twins."""


OpenLauncher = Callable[[int], Launcher]  # core -> launcher
Progress = Callable[[Recording], None]


def record_plan(
    plan: Plan,
    subject: str,
    locator: Locator,
    open_launcher: OpenLauncher,
    *,
    cores: Sequence[int] = (0, 1),
    overlay: Path | None = None,
    progress: Progress = lambda _recording: None,
) -> tuple[Recording, ...]:
    """Make every start of the plan and return the recordings in the plan's order.

    One worker thread per core lives as long as its launcher (a column dies with the thread that started it). The first error
    that is not the subject's fault stops all workers and is raised here; a subject's own failure is written into its recording.
    An interrupt (Ctrl-C) ends all subjects at once.
    """
    waiting: queue.SimpleQueue[tuple[int, Start]] = queue.SimpleQueue()
    for numbered in enumerate(_costliest_first(plan.starts)):
        waiting.put(numbered)
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
                        _, start = waiting.get_nowait()
                    except queue.Empty:
                        return
                    recording = record_start(start, subject, locator, launcher, overlay)
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


def record_start(start: Start, subject_name: str, locator: Locator, launcher: Launcher, overlay: Path | None = None) -> Recording:
    """Make one start, ask everything in order, end it, and return the recording."""
    began = time.monotonic()
    model = locator.model(start.model)
    pack = locator.pack(start.pack) if start.pack else None
    if start.expect == "refused":
        ended = launcher.refused(start, model, pack, overlay)
        return _recording(start, subject_name, (), ended, began)
    try:
        subject = launcher.start(start, model, pack, overlay)
    except SubjectError as error:
        unasked = tuple(Answer(request_id=request.id, status=None, failure="not started") for request in start.requests)
        return Recording(
            subject=subject_name,
            start=start,
            answers=unasked,
            trace=Trace(traced=True),
            log=(),
            exit_status=None,
            failure=str(error),
            seconds=time.monotonic() - began,
        )
    try:
        answers = tuple(subject.ask(request) for request in start.requests)
    except BaseException:
        subject.end()
        raise
    ended = subject.end()
    recording = _recording(start, subject_name, answers, ended, began)
    return msgspec.structs.replace(recording, ready_line=subject.ready_line, failure=_death(ended))


def _recording(start: Start, subject_name: str, answers: tuple[Answer, ...], ended: Ended, began: float) -> Recording:
    return Recording(
        subject=subject_name,
        start=start,
        answers=answers,
        trace=ended.trace,
        log=ended.log,
        exit_status=ended.exit_status,
        seconds=time.monotonic() - began,
        cpu_seconds=ended.cpu_seconds,
        peak_rss_mib=ended.peak_rss_mib,
    )


def _death(ended: Ended) -> str:
    """Say that a subject ended by itself before it was told to; "" where it lived."""
    if ended.exit_status is None:
        return ""
    last = " | ".join(ended.log[-20:])
    return f"died with status {ended.exit_status} before it was ended; its last lines: {last}"


def _costliest_first(starts: Sequence[Start]) -> list[Start]:
    """Order starts so that the longest do not come last and leave one column idle."""
    return sorted(starts, key=lambda start: -sum(request.max_tokens for request in start.requests))
