"""The process that keeps a column: traced from its first instruction, it starts one subject after the other.

It runs as a process of its own (`main`), speaks with the column over a Unix socket, and forks a guard per subject; the
guard makes the namespaces and forks the subject, which either execs a program (cold) or runs a module as `python -m` would
(warm). It opens a path with the column's nonce before each subject and after its end: between these two lines of the
tracer's log, everything that is not the keeper's is the subject's. Standard library only, and never the subject's modules.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import runpy
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, NoReturn

from harness.subjects import enclosure, precompiled

MESSAGE_BYTES = 1 << 17
MAX_DESCRIPTORS = 2  # the log pipe, the listening socket
FIRST_FREE = 64  # received descriptors are parked from here on while 0 to 3 are laid out
LISTEN_FD = 3  # systemd's first handed-over descriptor


@dataclass(slots=True)
class Subject:
    """What the keeper holds of the running subject."""

    guard: int  # pid
    report: int  # read end of the guard's pipe; its end of file is the guard's end


def main() -> None:
    """Keep a column until its socket closes; in the subject's own process, become the subject."""
    settings = json.loads(sys.argv[2])
    control = socket.socket(fileno=int(sys.argv[1]))
    for module in settings["preload"]:
        importlib.import_module(module)
    codes = precompiled.compile_sources(settings["source_root"], settings["packages"])
    foreign = [name for name in settings["forbidden"] if name in sys.modules]
    if settings["adopt"]:
        enclosure.adopt_orphans()
    gc.collect()
    gc.freeze()
    _send(control, {"failed": f"preloading imported the subject: {foreign}"} if foreign else {"ready": True})
    job = _keep(control)
    if job is not None:
        _become(job, codes)
    elif settings["adopt"]:
        enclosure.sweep()


def _keep(control: socket.socket) -> dict[str, Any] | None:
    """Serve the column. Returns a job in the subject's process alone; None when the column closes."""
    subject: Subject | None = None
    while True:
        message, descriptors = _receive(control)
        if message is None or message["op"] == "close":
            return None
        if message["op"] == "end" and subject is not None:
            report = _await(subject)
            subject = None
            _touch(message["nonce"])
            _send(control, report)
        elif message["op"] == "start" and subject is None:
            problem = _not_single()
            if problem:
                _send(control, {"failed": problem})
                continue
            _touch(message["nonce"])
            subject = _fork_guard(control, message, descriptors)
            if subject is None:
                return message
        else:
            _send(control, {"failed": f"{message['op']} is out of order"})
        for descriptor in descriptors:
            os.close(descriptor)


def _fork_guard(control: socket.socket, job: dict[str, Any], descriptors: list[int]) -> Subject | None:
    """Fork the guard. Returns what the keeper holds of it, or None in the subject's process."""
    report_reader, report_writer = os.pipe()
    keeper = os.getpid()
    guard = os.fork()
    if guard != 0:
        os.close(report_writer)
        return Subject(guard, report_reader)
    os.close(report_reader)
    try:
        enclosure.die_with_parent()
        if os.getppid() != keeper:
            os._exit(1)
        os.setsid()
        _enclose(job)
        child = os.fork()
    except Exception as error:
        _send(control, {"failed": str(error)})
        os._exit(1)
    if child != 0:
        _guard(control, child, report_writer, descriptors, job)
    try:
        _settle(job, descriptors)
    except OSError as error:
        os.write(descriptors[0], f"the subject's surroundings could not be made: {error}\n".encode())
        os._exit(126)
    return None


def _guard(control: socket.socket, child: int, report: int, descriptors: list[int], job: dict[str, Any]) -> NoReturn:
    """Hand the subject's pidfd to the column, wait for the subject, report how it ended."""
    pidfd = os.pidfd_open(child)
    _send(control, {"pid": child}, pidfd)
    control.close()
    for descriptor in (*descriptors, pidfd):
        os.close(descriptor)
    _, status, usage = os.wait4(child, 0)
    if not job["namespaces"]:
        enclosure.sweep()
    message = {
        "status": os.waitstatus_to_exitcode(status),
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_rss_mib": usage.ru_maxrss / 1024,
    }
    os.write(report, json.dumps(message).encode())
    os._exit(0)


def _enclose(job: dict[str, Any]) -> None:
    if not job["namespaces"]:
        enclosure.adopt_orphans()
        return
    enclosure.enter_namespaces()
    if job["device"]:
        enclosure.private_device(job["device"], job["stage"])
    for folder in job["hide"]:
        enclosure.hide_folder(folder)


def _settle(job: dict[str, Any], descriptors: list[int]) -> None:
    """In the subject's process: lay out descriptors, limits, folder and environment."""
    enclosure.die_with_parent()
    if job["namespaces"]:
        enclosure.mount_proc()
    else:
        os.setsid()
    parked = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, FIRST_FREE) for descriptor in descriptors]
    log = parked[0]
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(log if job["log_stdout"] else null, 1)
    os.dup2(log, 2)
    if job["listens"]:
        os.dup2(parked[1], LISTEN_FD)
        job["environment"] |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
    os.closerange(LISTEN_FD + 1 if job["listens"] else LISTEN_FD, os.sysconf("SC_OPEN_MAX"))
    os.chdir(job["folder"])
    enclosure.limit(job["cpu_budget_s"])


def _become(job: dict[str, Any], codes: Mapping[bytes, CodeType]) -> None:
    """Be the subject: exec its program, or run its module in this interpreter as `python -m` would."""
    if not job["module"]:
        try:
            os.execve(job["argv"][0], job["argv"], job["environment"])  # noqa: S606 - the subject itself
        except OSError as error:
            os.write(2, f"{job['argv'][0]}: cannot be started: {error.strerror}\n".encode())
            os._exit(127)
    os.environ.clear()
    os.environ.update(job["environment"])
    for name in [name for name in sys.modules if name.partition(".")[0] == "harness"]:
        del sys.modules[name]
    known = {job["folder"], *job["path_entries"], ""}
    sys.path[:] = [job["folder"], *job["path_entries"], *(entry for entry in sys.path if entry not in known)]
    sys.dont_write_bytecode = True
    sys.argv = [job["module"], *job["arguments"]]
    importlib.invalidate_caches()
    precompiled.install(codes)
    runpy.run_module(job["module"], run_name="__main__", alter_sys=True)


def _await(subject: Subject) -> dict[str, Any]:
    """Wait for the guard's end; the column has killed the subject, or it ended by itself."""
    parts = []
    while part := os.read(subject.report, MESSAGE_BYTES):
        parts.append(part)
    os.close(subject.report)
    os.waitpid(subject.guard, 0)
    if not parts:
        return {"failed": "the guard ended without a report"}
    return dict(json.loads(b"".join(parts)))


def _not_single() -> str:
    threads = os.listdir("/proc/self/task")  # noqa: PTH208
    if len(threads) == 1:
        return ""
    return f"the parent holds {len(threads)} threads after preloading; a fork would copy one of them. Preload less"


def _touch(nonce: str) -> None:
    """Open a path that does not exist: its line in the tracer's log is what matters."""
    try:
        os.close(os.open(nonce, os.O_RDONLY))
    except FileNotFoundError:
        return


def _send(control: socket.socket, message: dict[str, Any], *descriptors: int) -> None:
    socket.send_fds(control, [json.dumps(message).encode()], descriptors)


def _receive(control: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    content, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, MAX_DESCRIPTORS)
    return (json.loads(content) if content else None), list(descriptors)
