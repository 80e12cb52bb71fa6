"""One process tree on one core: unshare, the tracer, the keeper. Subjects run in it strictly one after the other.

It knows jobs (a program or a module, and what surrounds it) and the tracer's log; it knows nothing of descriptions, HTTP or
verdicts. When it is closed, or whoever holds it dies, nothing of it is left.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import MachineError
from harness.tracing.machine import Machine, Namespaces, check_core
from harness.tracing.verdict import Evidence

KEEPER_TIMEOUT_S = 60.0  # to import what is preloaded, on a busy machine
START_TIMEOUT_S = 20.0
BARRIER_TIMEOUT_S = 5.0  # takes 0.3 ms; a stopped tracer never answers
CLOSE_TIMEOUT_S = 5.0
MESSAGE_BYTES = 1 << 17
_BOOT = "import sys; sys.path.insert(0, {root!r}); from harness.subjects.keeper import main; del sys.path[0]; main()"


@dataclass(frozen=True, slots=True)
class Job:
    """What one subject is: a program, or with `module` a module of the warm parent's interpreter."""

    argv: tuple[str, ...]  # the program, absolute, and its arguments
    environment: Mapping[str, str]
    folder: str  # its working folder
    module: str = ""  # "" = exec argv
    arguments: tuple[str, ...] = ()  # of the module
    path_entries: tuple[str, ...] = ()  # first on the module's sys.path
    log_stdout: bool = False
    cpu_budget_s: float | None = None
    device: str = ""


@dataclass(frozen=True, slots=True)
class WarmParent:
    """A keeper that forks its subjects out of an interpreter that has imported much already."""

    environment: Mapping[str, str]
    preload: tuple[str, ...]  # modules
    forbidden: tuple[str, ...]  # modules of the subject, which it may never import
    source_root: str = ""  # where the subject's packages lie; it compiles them, and imports none
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leash:
    """The subject of a column. `pidfd` becomes readable when it ends; it is the holder's to close."""

    pidfd: int
    offset: int  # of the tracer's log when it was started
    start_nonce: str


@dataclass(frozen=True, slots=True)
class Report:
    """How a subject ended, and the tracer's log of it (None: not traced)."""

    was_killed: bool  # by us; a subject that was ending anyway keeps its own status
    exit_status: int | None  # negative: a signal; None: nobody could say
    cpu_seconds: float
    peak_rss_mib: float
    evidence: Evidence | None


class ProcessTree:
    """A running column. Its processes die with the thread of `spawner`, which therefore outlives it."""

    def __init__(
        self,
        machine: Machine,
        workdir: Path,
        spawner: ThreadPoolExecutor,
        *,
        core: int | None,
        traced: bool,
        warm: WarmParent | None = None,
    ) -> None:
        """Start the tree and wait until its keeper, a warm parent where `warm` says so, has preloaded.

        Raises MachineError with what the tools said.
        """
        check_core(core)
        self._has_namespaces = machine.namespaces is not Namespaces.NONE
        self._is_traced = traced
        self._folder = tempfile.mkdtemp(prefix="trace-", dir=workdir)
        self._stage = tempfile.mkdtemp(prefix="stage-", dir=workdir)
        self._lock = threading.Lock()
        self._log_lock = threading.Lock()
        self._problems: list[str] = []
        self._is_running = False
        self._is_closed = False
        log = f"{self._folder}/strace.log" if traced else None
        self._log = os.open(log, os.O_RDONLY | os.O_CREAT, 0o600) if log else None
        self._control, keeper_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said, said_writer = os.pipe()
        os.set_blocking(self._said, False)
        argv = (*machine.column_argv(core, log), machine.python, *_keeper_words(warm, keeper_end.fileno(), machine))
        try:
            self._process = spawner.submit(
                subprocess.Popen,
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said_writer,
                env=dict(warm.environment) if warm else {},
                pass_fds=(keeper_end.fileno(),),
                start_new_session=True,
            ).result()
        finally:
            keeper_end.close()
            os.close(said_writer)
        self._require(self._receive(KEEPER_TIMEOUT_S)[0], "the keeper did not start")

    @property
    def log_size(self) -> int:
        """Bytes of the tracer's log; what a returned call wrote is in it. 0 where it is closed."""
        with self._log_lock:
            return 0 if self._log is None else os.fstat(self._log).st_size

    @property
    def is_sound(self) -> bool:
        """Whether another subject may be started in it."""
        return not self._problems and not self._is_closed and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The outermost process, as the harness sees it."""
        return self._process.pid

    def start(self, job: Job, log_pipe: int, listener: int | None) -> Leash:
        """Start a subject with `log_pipe` as its stderr and `listener` as descriptor 3; both stay ours to close.

        Raises MachineError where its surroundings could not be made.
        """
        if job.device and not self._has_namespaces:
            raise MachineError(f"{job.device}: a device node for one subject needs a mount namespace; allow unshare")
        nonce = self._nonce()
        offset = self.log_size
        message = asdict(job) | {
            "op": "start",
            "nonce": nonce,
            "listens": listener is not None,
            "namespaces": self._has_namespaces,
            "hide": [self._folder],
            "stage": self._stage,
        }
        self._is_running = True
        self._send(message, log_pipe, *(() if listener is None else (listener,)))
        reply, descriptors = self._receive(START_TIMEOUT_S)
        self._require(reply, "the subject could not be started")
        return Leash(descriptors[0], offset, nonce)

    def end(self, leash: Leash, *, last: bool) -> Report:
        """End the subject and everything that it started, and take the log between its nonces. Never raises.

        `last` closes the column too, so that the log is whole and the tracer's own end is judged.
        """
        with self._lock:
            was_killed = _kill(leash.pidfd)
            nonce = self._nonce()
            self._send({"op": "end", "nonce": nonce})
            reply, _ = self._receive(BARRIER_TIMEOUT_S)
            self._is_running = False
            if reply is None:
                self._problems.append(f"no barrier within {BARRIER_TIMEOUT_S:.0f} s: the tracer is stopped or dead")
            elif "failed" in reply:
                self._problems.append(reply["failed"])
            if last:
                self._finish()
            said = self._tracer_said()
            if said:
                self._problems.append(f"the tracer said: {said}")
            evidence = self._evidence(leash, nonce, last=last)
            self._release()
        facts = reply or {}
        return Report(
            was_killed=was_killed,
            exit_status=facts.get("status"),
            cpu_seconds=facts.get("cpu_seconds", 0.0),
            peak_rss_mib=facts.get("peak_rss_mib", 0.0),
            evidence=evidence,
        )

    def close(self) -> None:
        """End the whole tree for certain; a subject that still runs is killed with it. May be called twice."""
        if self._is_running:
            self._kill_tree()
        with self._lock:
            self._finish()
            self._release()

    def _finish(self) -> None:
        """Let the keeper and then the tracer end by themselves; kill what does not."""
        if self._is_closed:
            return
        self._is_closed = True
        self._send({"op": "close"})
        self._control.close()
        try:
            status = self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._problems.append(f"the tracer did not end by itself within {CLOSE_TIMEOUT_S:.0f} s")
            self._process.kill()
            self._process.wait()
        else:
            if status != 0:
                self._problems.append(f"the tracer ended with status {status}")

    def _kill_tree(self) -> None:
        """End a tree in use: its namespace ends with the outermost process; without one, the keeper sweeps."""
        if self._has_namespaces:
            self._process.kill()
        else:
            self._control.shutdown(socket.SHUT_RDWR)

    def _release(self) -> None:
        if not self._is_closed or self._said < 0:
            return
        os.close(self._said)
        self._said = -1
        with self._log_lock:
            if self._log is not None:
                os.close(self._log)
                self._log = None

    def _evidence(self, leash: Leash, nonce: str, *, last: bool) -> Evidence | None:
        if not self._is_traced:
            return None
        content = b"" if self._log is None else os.pread(self._log, self.log_size - leash.offset, leash.offset)
        return Evidence(content, leash.offset, leash.start_nonce, nonce, tuple(self._problems), is_whole=last)

    def _tracer_said(self) -> str:
        """Take what the tracer wrote on its stderr: a full disk, for one, shows nowhere else."""
        try:
            return os.read(self._said, MESSAGE_BYTES).decode(errors="replace").strip() if self._said >= 0 else ""
        except BlockingIOError:
            return ""

    def _require(self, reply: dict[str, Any] | None, what: str) -> None:
        """Raise MachineError, with the tree ended, unless the keeper answered well."""
        if reply is not None and "failed" not in reply:
            return
        self._kill_tree()
        with self._lock:
            self._finish()
            said = self._tracer_said()
            self._release()
        why = "no answer" if reply is None else reply["failed"]
        raise MachineError(f"column: {what}: {why}" + (f"; {said}" if said else ""))

    def _nonce(self) -> str:
        return f"{self._folder}/nonce-{secrets.token_hex(12)}"

    def _send(self, message: dict[str, Any], *descriptors: int) -> None:
        """Send; a keeper that is gone shows when its answer is awaited."""
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
        except OSError:
            return

    def _receive(self, timeout_s: float) -> tuple[dict[str, Any] | None, list[int]]:
        """Return the keeper's next message and its descriptors; None when it is gone or does not answer in time."""
        try:
            self._control.settimeout(timeout_s)
            content, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 1)
        except OSError:
            return None, []
        return (json.loads(content) if content else None), list(descriptors)


def _keeper_words(warm: WarmParent | None, control: int, machine: Machine) -> tuple[str, ...]:
    """Return the interpreter's arguments. A cold keeper execs its subject, so it starts bare and fast."""
    settings = {
        "preload": list(warm.preload) if warm else [],
        "forbidden": list(warm.forbidden) if warm else [],
        "source_root": warm.source_root if warm else "",
        "packages": list(warm.packages) if warm else [],
        "adopt": machine.namespaces is Namespaces.NONE,
    }
    boot = _BOOT.format(root=str(Path(__file__).parents[2]))
    return (*(() if warm else ("-I", "-S")), "-c", boot, str(control), json.dumps(settings))


def _kill(pidfd: int) -> bool:
    """SIGKILL the subject; False where it had ended by itself."""
    if select.select([pidfd], [], [], 0)[0]:
        return False
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
