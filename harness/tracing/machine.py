"""What this machine allows: namespaces, ptrace, strace; and what a run loses where something is missing.

Asked once per run by trying the very commands that a column is made of. It starts no subject.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from harness.errors import MachineError, UsageError
from harness.tracing.strace import tracer_argv

PROBE_TIMEOUT_S = 20.0


class Namespaces(enum.StrEnum):
    """How a column gets its own pid and mount namespaces."""

    DIRECT = "direct"  # unshare as root
    USER = "user"  # through a user namespace (-U -r)
    NONE = "none"


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """Absolute paths of the tools, what is allowed, and what is lost."""

    python: str
    setpriv: str
    taskset: str
    unshare: str  # "" where it is missing
    strace: str  # "" where it is missing
    namespaces: Namespaces
    losses: tuple[str, ...] = ()

    def column_argv(self, core: int | None, log: str | None) -> tuple[str, ...]:
        """Return the words that stand before a program so that it runs in a column.

        The column dies with the thread that starts it, is pinned to `core` (None: not pinned), is pid 1 of its own pid
        namespace where that is allowed, and is traced into the file `log` (None: not traced).
        """
        words = [self.setpriv, "--pdeathsig", "KILL"]
        if core is not None:
            words += [self.taskset, "-c", str(core)]
        if self.namespaces is not Namespaces.NONE:
            words += [self.unshare, *(("-U", "-r") if self.namespaces is Namespaces.USER else ())]
            words += ["--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
        if log is not None:
            words += tracer_argv(self.strace, log)
        return tuple(words)


def probe(*, traced: bool = True) -> Machine:
    """Find out what this machine allows. Raises MachineError saying what to install or to allow."""
    tools = {name: shutil.which(name) or "" for name in ("setpriv", "taskset", "unshare", "strace")}
    for name in ("setpriv", "taskset"):
        if not tools[name]:
            raise MachineError(f"{name}: not found on PATH; a column needs it; install the package util-linux")
    machine = _with_namespaces(
        Machine(
            python=sys.executable,
            setpriv=tools["setpriv"],
            taskset=tools["taskset"],
            unshare=tools["unshare"],
            strace=tools["strace"],
            namespaces=Namespaces.NONE,
        )
    )
    if traced:
        _check_strace(machine)
    return machine


def check_core(core: int | None) -> None:
    """Raise UsageError where this process may not run on `core`."""
    allowed = os.sched_getaffinity(0)
    if core is not None and core not in allowed:
        raise UsageError(f"core={core}: not among the cores of this process; use one of {sorted(allowed)}")


def _with_namespaces(machine: Machine) -> Machine:
    said = "unshare: not found"
    for kind in (Namespaces.DIRECT, Namespaces.USER) if machine.unshare else ():
        candidate = Machine(machine.python, machine.setpriv, machine.taskset, machine.unshare, machine.strace, namespaces=kind)
        # the inner unshare is what the keeper does for each subject
        inner = (machine.unshare, "--pid", "--mount", "--fork", "--mount-proc", "true")
        status, said = _run((*candidate.column_argv(None, None), *inner))
        if status == 0:
            return candidate
    losses = (
        f"no pid and mount namespaces ({said}): a subject's daemons are swept while the harness lives, but can outlive a "
        "harness, a tracer or a guard that is killed; allow unshare (root, CAP_SYS_ADMIN or user namespaces)",
        "no private mounts: the tracer's log is not hidden from the subject, and a device arm opens a file of its scratch "
        "folder in place of a node",
    )
    return dataclasses.replace(machine, losses=losses)


def _check_strace(machine: Machine) -> None:
    if not machine.strace:
        raise MachineError("strace: not found on PATH; install it (apt-get install strace), or switch tracing off by hand")
    status, said = _run((*machine.column_argv(None, os.devnull), "true"))
    if status != 0 or said:
        raise MachineError(
            f"strace: cannot trace here (exit status {status}: {said or 'no message'}); strace 5.3 or later is needed, and "
            "ptrace must be allowed (docker run --cap-add SYS_PTRACE, kernel.yama.ptrace_scope below 2), or tracing "
            "switched off by hand",
        )


def _run(argv: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(argv, capture_output=True, timeout=PROBE_TIMEOUT_S, text=True, check=False)
    except subprocess.TimeoutExpired:
        return -1, f"no answer within {PROBE_TIMEOUT_S:.0f} s"
    return done.returncode, done.stderr.strip().replace("\n", "; ")
