"""The cold launcher: every subject is started by an exec in a column of its own, which ends with it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.errors import MachineError, StartError, UsageError
from harness.records.plan import Request, Start
from harness.records.recording import Trace
from harness.subjects.client import Exchange, Lane
from harness.subjects.declarations import LogStreams
from harness.subjects.description import Description
from harness.subjects.device import GivenDevice, given_device
from harness.subjects.launch import Command, Places, render
from harness.subjects.process_tree import Job, ProcessTree
from harness.subjects.stay import Interest, Stay
from harness.subjects.subject import Ended, Handle, RunningSubject
from harness.tracing.decoys import control
from harness.tracing.machine import Machine, Namespaces, check_core, probe
from harness.tracing.verdict import Bracket

HOST = "127.0.0.1"
LAST_LINES = 20
PROGRAM_TIMEOUT_S = 20.0
PROBE_EVERY_S = 0.05  # of a subject that says nothing when it is ready
OK = 200


class NeverReadyError(StartError):
    """The subject was started and never became ready. `ended` holds its exit status, log and trace."""

    def __init__(self, message: str, ended: Ended) -> None:
        super().__init__(message)
        self.ended = ended


class Launcher:
    """Starts subjects of one description on one core, strictly one at a time.

    The processes die with the launcher's own thread, so with the harness, however that ends.
    """

    def __init__(
        self,
        description: Description,
        workdir: Path,
        core: int | None = 0,
        *,
        traced: bool = True,
        machine: Machine | None = None,
    ) -> None:
        """Prepare a column on `core` (None: not pinned); `workdir` holds logs and scratch folders and stays the caller's.

        Raises MachineError where the machine forbids what is needed, UsageError for a core that it has not.
        """
        check_core(core)
        self.machine = machine or probe(traced=traced)
        self._description = description
        self._core = core
        self._traced = traced
        workdir.mkdir(parents=True, exist_ok=True)
        self._workdir = Path(tempfile.mkdtemp(prefix="launcher-", dir=workdir.resolve()))
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")
        self._tree: ProcessTree | None = None
        self._stay: Stay | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.close()

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
        """Start a subject and wait until it is ready. Both budgets run from here on.

        Raises NeverReadyError with its last lines, MachineError where no column can be made, UsageError for parameters that
        do not fit the arm or while another subject runs.
        """
        began = time.monotonic()
        ready = self._description.ready
        timeout_s = ready.timeout_s if wall_budget_s is None else min(ready.timeout_s, wall_budget_s)
        deadline = began + timeout_s
        stay, scratch, port = self._begin(start, model, pack, overlay, cpu_budget_s)
        said = self._await_ready(stay, port, deadline)
        if said is None:
            raise self._never_ready(start, stay, "ended before it was ready", f"was not ready in {timeout_s:g} s")
        base_url, ready_line = said
        arm = self._description.arms[start.arm]
        subject = RunningSubject(
            self._description,
            base_url,
            ready_line,
            stay.pump,
            Handle(lambda: stay.log_size, lambda brackets: self._end(stay, brackets)),
            scratch=scratch,
            wall_deadline=None if wall_budget_s is None else began + wall_budget_s,
            dump=arm.dump,
            drafts=arm.drafter != "none",
        )
        self._probe(start, stay, subject.base_url, deadline)
        return subject

    def refused(self, start: Start, model: Path, pack: Path | None = None, overlay: Path | None = None) -> Ended:
        """Start what must refuse to start, and wait for its end. A subject that gets ready instead has exit status None."""
        stay, _, port = self._begin(start, model, pack, overlay, None)
        self._await_ready(stay, port, time.monotonic() + self._description.ready.timeout_s)
        return self._end(stay)

    def trace_program(self, argv: Sequence[str], watched: Sequence[str], holding: Sequence[str]) -> Trace:
        """Run a program to its end in the column and return what it opened. Raises MachineError where it fails."""
        job = Job(argv=tuple(argv), environment={}, folder=str(self._workdir))
        stay = self._settle(job, Interest(tuple(watched), _real(holding)), None)
        exited = stay.await_exit(PROGRAM_TIMEOUT_S)
        ended = self._end(stay)
        if not exited or ended.exit_status != 0:
            how = f"ended with status {ended.exit_status}" if exited else f"did not end within {PROGRAM_TIMEOUT_S:g} s"
            raise MachineError(f"{' '.join(argv)}: {how} under the tracer; {_last_lines(ended.log)}")
        return ended.trace

    def control(self) -> tuple[Trace, tuple[str, ...]]:
        """Run the decoys in the column: (what the tracer saw, the paths that it must have seen)."""
        return control(self, self._description.watched_paths, self._workdir / "decoys")

    def close(self) -> None:
        """End everything that this launcher started. May be called from another thread, and twice."""
        if self._tree is not None:
            self._tree.close()
        self._spawner.shutdown()

    def _begin(
        self, start: Start, model: Path, pack: Path | None, overlay: Path | None, cpu_budget_s: float | None
    ) -> tuple[Stay, Path, int]:
        """Start the subject of a planned start; return its stay, its scratch folder and the port that it was given, 0 for none."""
        scratch = Path(tempfile.mkdtemp(prefix="start-", dir=self._workdir))
        listener = socket.create_server((HOST, 0)) if self._description.launch.hands_over_socket else None
        port = free_port() if self._description.launch.needs_port else 0
        try:
            device = self._device_of(start, scratch)
            places = Places(
                python=self.machine.python,
                model=model.resolve(),
                pack=pack.resolve() if pack else None,
                scratch=scratch,
                port=listener.getsockname()[1] if listener else port,
                overlay=overlay.resolve() if overlay else None,
                program=next((shutil.which(name) or "" for name in self._description.requires.programs), ""),
                device=device,
            )
            command = render(self._description, start, places, os.environ)
            folders = [str(folder) for folder in (places.model, places.pack) if folder]
            job = self._job(command, str(scratch), cpu_budget_s)
            watched = (*self._description.watched_paths, *((device.watched,) if device else ()))
            interest = Interest(watched, _real(folders), device, self._description.launch.is_wrapper)
            return self._settle(job, interest, listener.fileno() if listener else None), scratch, port
        finally:
            if listener is not None:
                listener.close()

    def _device_of(self, start: Start, scratch: Path) -> GivenDevice | None:
        arm = self._description.arms.get(start.arm)
        if arm is None:  # refused where its launch line is made
            return None
        has_mounts = self.machine.namespaces is not Namespaces.NONE
        return given_device(arm.device, None if has_mounts else scratch, is_real=arm.real_device)

    def _settle(self, job: Job, interest: Interest, listener: int | None) -> Stay:
        if self._stay is not None:
            raise UsageError(f"core={self._core}: a subject is running in this column; end it before another is started")
        self._tree = self._ready_tree()
        self._stay = Stay(self._tree, job, interest, listener=listener, is_only=self._is_tree_for_one())
        return self._stay

    def _end(self, stay: Stay, brackets: Sequence[Bracket] = ()) -> Ended:
        self._stay = None
        return stay.end(brackets)

    def _job(self, command: Command, folder: str, cpu_budget_s: float | None) -> Job:
        return Job(
            argv=command.argv,
            environment=command.environment,
            folder=folder,
            log_stdout=self._description.ready.log is LogStreams.BOTH,
            cpu_budget_s=cpu_budget_s,
            device=command.device,
        )

    def _ready_tree(self) -> ProcessTree:
        return ProcessTree(self.machine, self._workdir, self._spawner, core=self._core, traced=self._traced)

    def _is_tree_for_one(self) -> bool:
        return True

    def _await_ready(self, stay: Stay, port: int, deadline: float) -> tuple[str, str] | None:
        """Wait until it says that it serves, or answers where it says nothing: (base URL, line); None where it never does."""
        pattern = self._description.ready.line
        if not pattern:
            url = f"http://{HOST}:{port}"
            return (url, "") if self._await_answer(stay, url, deadline) else None
        line = stay.await_line(re.compile(pattern), deadline)
        return None if line is None else (f"http://{HOST}:{port or line['port']}", line.string)

    def _await_answer(self, stay: Stay, base_url: str, deadline: float) -> bool:
        """Ask the probe until it answers 200; False when the subject ends before, or time is up."""
        while (now := time.monotonic()) < deadline and not stay.pump.has_ended:
            if self._asked(base_url, deadline - now).status == OK:
                return True
            stay.pump.wait_for(lambda _lines: False, 0, min(deadline, time.monotonic() + PROBE_EVERY_S))
        return False

    def _asked(self, base_url: str, timeout_s: float) -> Exchange:
        lane = Lane(base_url)
        try:
            return lane.exchange(Request(id="", checks=(), path=self._description.ready.probe, method="GET"), timeout_s)
        finally:
            lane.close()

    def _probe(self, start: Start, stay: Stay, base_url: str, deadline: float) -> None:
        path = self._description.ready.probe
        exchange = self._asked(base_url, deadline - time.monotonic())
        if exchange.status != OK:
            said = f"answered {path} with {exchange.status or exchange.failure} after its ready line; want 200"
            raise self._never_ready(start, stay, f"{said}, and ended", said)

    def _never_ready(self, start: Start, stay: Stay, ended_why: str, alive_why: str) -> NeverReadyError:
        ended = self._end(stay)
        why = alive_why if ended.exit_status is None else f"{ended_why}, with status {ended.exit_status}"
        message = f"{self._description.name}: arm {start.arm!r} of start {start.id!r}: {why}; {_last_lines(ended.log)}"
        return NeverReadyError(message, ended)


def free_port() -> int:
    """Return a port of the loopback interface that nobody holds now."""
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _real(folders: Sequence[str]) -> tuple[str, ...]:
    return tuple(os.path.realpath(folder) for folder in folders)


def _last_lines(log: Sequence[str]) -> str:
    if not log:
        return "it wrote nothing to its log"
    return "its last lines:\n  " + "\n  ".join(log[-LAST_LINES:])
