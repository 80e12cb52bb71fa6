"""What is put around a subject before its first instruction: namespaces, mounts, limits, a private device node.

Called between fork and exec, by processes that hold no thread. Standard library only: a cold keeper starts without site
packages. But for `sweep`, nothing here opens a file: the tracer's log holds the subject's own opens alone.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
import stat
from pathlib import Path

CLONE_NEWNS = 0x00020000  # linux/sched.h
CLONE_NEWPID = 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x2, 0x4, 0x8  # linux/mount.h
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x1000, 0x2000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
DEVICE_NODES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_FOLDERS = ("shm", "pts")
DEVICE_LINKS = (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"))


def die_with_parent() -> None:
    """Have the kernel SIGKILL this process when the thread that forked it ends. OSError where it is refused."""
    _succeed("prctl(PR_SET_PDEATHSIG)", _libc().prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant (child subreaper)."""
    _succeed("prctl(PR_SET_CHILD_SUBREAPER)", _libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def enter_namespaces() -> None:
    """Give this process a mount namespace of its own, and its next child a pid namespace in which it is pid 1."""
    _succeed("unshare(CLONE_NEWPID | CLONE_NEWNS)", _libc().unshare(CLONE_NEWPID | CLONE_NEWNS))
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def mount_proc() -> None:
    """Mount /proc of this process's pid namespace; kept as it was where a container masks parts of it."""
    try:
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except PermissionError:
        return


def hide_folder(folder: str) -> None:
    """Cover `folder` with an empty tmpfs. Not sticky: a sticky one would refuse opens of nodes made in it."""
    mount("tmpfs", folder, "tmpfs", 0, "mode=755,size=1m")


def private_device(device: str, stage: str) -> None:
    """Replace /dev by a private one that also holds `device`, a node that behaves as /dev/null.

    `stage` is an empty folder inside this mount namespace. A node is bound, not made: mknod is forbidden in a user
    namespace, and a bound node has the number 1:3 and the path `device` all the same.
    """
    mount("tmpfs", stage, "tmpfs", 0, "mode=755,size=1m")
    for name in DEVICE_NODES:
        if os.path.exists(f"/dev/{name}"):  # noqa: PTH110
            _bind_file(f"/dev/{name}", f"{stage}/{name}")
    for name in DEVICE_FOLDERS:
        if os.path.isdir(f"/dev/{name}"):  # noqa: PTH112 - runs before the subject, without pathlib's import
            os.mkdir(f"{stage}/{name}", 0o755)  # noqa: PTH102
            mount(f"/dev/{name}", f"{stage}/{name}", "", MS_BIND | MS_REC)
    for name, target in DEVICE_LINKS:
        os.symlink(target, f"{stage}/{name}")  # noqa: PTH211
    node = stage + device.removeprefix("/dev")
    os.makedirs(os.path.dirname(node), 0o755, exist_ok=True)  # noqa: PTH103, PTH120
    _bind_file("/dev/null", node)
    mount(stage, "/dev", "", MS_MOVE)


def limit(cpu_budget_s: float | None) -> None:
    """Bound the CPU seconds of this process, rounded up to whole ones, and write no core files.

    Soft equals hard: pid 1 of a namespace never sees SIGXCPU, so a lower soft limit would only delay the kill.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if cpu_budget_s is not None:
        seconds = max(1, math.ceil(cpu_budget_s))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def sweep() -> None:
    """SIGKILL and reap every descendant until none is left. Complete for a child subreaper, also against daemons."""
    while True:
        for child in _children():
            os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount(2). Raises OSError naming the target."""
    words = [word.encode() for word in (source, target, kind)]
    _succeed(f"mount {source} on {target}", _libc().mount(*words, ctypes.c_ulong(flags), data.encode()))


def _bind_file(source: str, target: str) -> None:
    os.mknod(target, stat.S_IFREG | 0o644)  # makes an empty file without opening it
    mount(source, target, "", MS_BIND)


def _children() -> list[int]:
    own = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent_of(name) == own]  # noqa: PTH208


def _parent_of(pid: str) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(fields.rpartition(b")")[2].split()[1])


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _succeed(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
