"""What this machine has of what the gate needs, and of what one subject needs beside it. Nothing of a subject is started.

Where a thing can be tried it is tried (tracing, namespaces, a port, a file in the cache); where it cannot, it is looked for.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from harness.errors import MachineError
from harness.records.checkup import Checkup, Item, State
from harness.subjects.column import HOST, free_port
from harness.subjects.description import Description
from harness.subjects.requirements import MIB, examined, free_mib
from harness.tracing.machine import Machine, Namespaces, probe

TOOLS = {
    "setpriv": "util-linux",
    "taskset": "util-linux",
    "unshare": "util-linux",
    "strace": "strace",
}  # program -> Debian's package
CORES = (0, 1)  # a column each
CACHE_MIB = 200  # a recipe and its twins
MEMORY_MIB = 512  # two columns of the embedded engine
OLDEST_PYTHON = (3, 11)


def checkup(description: Description | None, cache: Path) -> Checkup:
    """Examine the machine, and what a subject needs of it where one is given; `cache` is where fixtures are kept."""
    items = [*_machine(), *_room(cache)]
    if description is not None:
        items += examined(description, cache)
    if description is None:
        return Checkup("", tuple(items))
    return Checkup(description.name, tuple(items), description.family)


def _machine() -> Iterator[Item]:
    yield _python()
    tools = {name: shutil.which(name) for name in TOOLS}
    for name, path in tools.items():
        yield _found(f"the program {name}", path, f"apt-get install {TOOLS[name]}")
    if tools["setpriv"] and tools["taskset"]:
        yield from _tried(has_strace=tools["strace"] is not None)
    yield _cores()
    yield _port()


def _python() -> Item:
    what = f"Python {'.'.join(map(str, OLDEST_PYTHON))} or later"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Item(what, State.MISSING, platform.python_version(), "make the virtual environment with a later one")
    return Item(what, State.THERE, f"{platform.python_version()} at {sys.executable}")


def _tried(*, has_strace: bool) -> Iterator[Item]:
    """Try the very commands that a column is made of."""
    machine = probe(traced=False)
    yield _namespaces(machine)
    if not has_strace:
        return
    try:
        probe(traced=True)
    except MachineError as error:
        said, _, fix = str(error).partition("; ")
        yield Item("tracing with strace (ptrace)", State.MISSING, said, f"{fix}; or run with --no-trace")
    else:
        yield Item("tracing with strace (ptrace)", State.THERE, "a traced program ran")


def _namespaces(machine: Machine) -> Item:
    what = "pid and mount namespaces"
    if machine.namespaces is not Namespaces.NONE:
        how = "as root" if machine.namespaces is Namespaces.DIRECT else "through a user namespace"
        return Item(what, State.THERE, how)
    return Item(what, State.LOST, machine.losses[0], "allow unshare: root, CAP_SYS_ADMIN, or user namespaces")


def _cores() -> Item:
    allowed = os.sched_getaffinity(0)
    what = f"cores {' and '.join(map(str, CORES))}"
    if allowed.issuperset(CORES):
        return Item(what, State.THERE, f"{len(allowed)} allowed")
    return Item(
        what,
        State.MISSING,
        f"allowed: {sorted(allowed)}",
        "give the process both cores (taskset, cpuset, docker run --cpuset-cpus)",
    )


def _port() -> Item:
    what = f"a free port of {HOST}"
    try:
        port = free_port()
        with socket.create_server((HOST, port)):
            return Item(what, State.THERE, f"{port} for one")
    except OSError as error:
        return Item(what, State.MISSING, str(error), "bring the loopback interface up (ip link set lo up)")


def _room(cache: Path) -> Iterator[Item]:
    free = free_mib(cache)
    fix = "set DRAFTPROOF_CACHE to a folder with room that you may write"
    is_enough = free >= CACHE_MIB and _may_write(cache)
    seen = f"{free} MiB free" if _may_write(cache) else "not writable"
    yield Item(f"{CACHE_MIB} MiB of room at {cache}", State.THERE if is_enough else State.MISSING, seen, "" if is_enough else fix)
    available = psutil.virtual_memory().available // MIB
    is_enough = available >= MEMORY_MIB
    fix = "" if is_enough else "end what else runs, or take a larger machine"
    yield Item(f"{MEMORY_MIB} MiB of memory", State.THERE if is_enough else State.MISSING, f"{available} MiB free", fix)


def _may_write(cache: Path) -> bool:
    there = next(parent for parent in (cache, *cache.absolute().parents) if parent.is_dir())
    try:
        with tempfile.TemporaryFile(dir=there):
            return True
    except OSError:
        return False


def _found(what: str, seen: str | None, fix: str) -> Item:
    return Item(what, State.THERE, seen) if seen else Item(what, State.MISSING, "not found on PATH", fix)
