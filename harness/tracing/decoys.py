"""The control of the tracer: a program that opens watched paths in every way, and another that opens an unwatched one.

What the decoys open does not exist, and no folder above it does: nothing is made and no device is touched. It does not
know how a column is built: whoever starts programs under one lends it (`Tracer`).
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from harness.errors import UsageError
from harness.records.recording import Trace
from harness.tracing.verdict import IO_URING, is_watched

AT_FDCWD = -100
SYS_OPENAT2, SYS_IO_URING_SETUP = 437, 425  # asm-generic/unistd.h; the same on every machine
SYS_OPEN_BY_HANDLE_AT = {"x86_64": 304, "aarch64": 265}
SYS_OPEN, SYS_CREAT = 2, 85  # x86-64 alone; other machines have neither call
UNWATCHED = "unwatched-decoy"


class Tracer(Protocol):
    """Whoever runs a program in a column of its own and says what it opened."""

    def trace_program(self, argv: Sequence[str], watched: Sequence[str], holding: Sequence[str]) -> Trace:
        """Run a program to its end under the tracer."""


def control(tracer: Tracer, watched: Sequence[str], folder: Path) -> tuple[Trace, tuple[str, ...]]:
    """Run the decoys. Returns what the tracer saw of them, and the paths of the events that it must have seen.

    The trace is blind where the tracer did not see the unwatched open either, and so looked at nothing.
    `folder` is an empty place of ours. Raises UsageError for a pattern that no decoy can match.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unwatched = folder / UNWATCHED
    unwatched.touch()
    if is_watched(str(unwatched), watched):
        raise UsageError(f"watched={list(watched)}: matches {unwatched}, so no path is left unwatched; narrow it")
    opens = plan_opens(watched, folder)
    orders = json.dumps({"opens": opens, "unwatched": str(unwatched)})
    program = "import sys; sys.path.insert(0, sys.argv[1]); from harness.tracing.decoys import main; main(sys.argv[2])"
    root = str(Path(__file__).parents[2])
    trace = tracer.trace_program((sys.executable, "-c", program, root, orders), watched, (str(folder),))
    if str(unwatched) not in trace.opened:
        blind = (*trace.blind, "the open of the unwatched decoy is not in the tracer's log")
        trace = msgspec.structs.replace(trace, blind=blind)
    return trace, tuple(path for _, path in opens)


def plan_opens(watched: Sequence[str], folder: Path) -> list[tuple[str, str]]:
    """Return (way, path of the event) for each way of opening: each pattern in turn, then the ways without a path."""
    bases = [_matching_path(pattern, folder) for pattern in watched]
    opens = [(way, f"{base}/{way}") for base in bases for way in _by_path()]
    for _, path in opens:
        if not is_watched(path, watched):
            raise UsageError(f"watched={list(watched)}: no decoy can match; end a pattern with *, as in /dev/accel*")
    handles = folder / "by-handle"
    handles.mkdir(exist_ok=True)
    return [*opens, ("open_by_handle_at", str(handles)), ("io_uring_setup", IO_URING)]


def main(orders: str) -> None:
    """Be the decoy program: open everything, each in its way, then become another program for the unwatched path."""
    order = json.loads(orders)
    ways = _by_path() | {"open_by_handle_at": _by_handle, "io_uring_setup": _io_uring}
    for way, path in order["opens"]:
        ways[way](path)
    other = "import os, sys; os.close(os.open(sys.argv[1], os.O_RDONLY))"
    os.execv(sys.executable, (sys.executable, "-I", "-S", "-c", other, order["unwatched"]))  # noqa: S606


def _by_path() -> dict[str, Callable[[str], None]]:
    ways: dict[str, Callable[[str], None]] = {
        "openat": _openat,
        "openat2": lambda path: _call(SYS_OPENAT2, AT_FDCWD, path.encode(), struct.pack("QQQ", 0, 0, 0), 24),
        "relative": _relative,
        "child": _in_child,
        "thread": _in_thread,
    }
    if os.uname().machine == "x86_64":
        ways["open"] = lambda path: _call(SYS_OPEN, path.encode(), os.O_RDWR, 0)
        ways["creat"] = lambda path: _call(SYS_CREAT, path.encode(), 0o600)
    return ways


def _openat(path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        return


def _relative(path: str) -> None:
    root = os.open("/", os.O_RDONLY)
    try:
        os.close(os.open(path.removeprefix("/"), os.O_RDWR, dir_fd=root))
    except OSError:
        return
    finally:
        os.close(root)


def _in_child(path: str) -> None:
    pid = os.fork()
    if pid == 0:
        _openat(path)
        os._exit(0)
    os.waitpid(pid, 0)


def _in_thread(path: str) -> None:
    thread = threading.Thread(target=_openat, args=(path,))
    thread.start()
    thread.join()


def _by_handle(path: str) -> None:
    """Try a handle that no file has: the attempt is what must be seen, whatever this user may do."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    _call(SYS_OPEN_BY_HANDLE_AT[os.uname().machine], folder, struct.pack("Ii8s", 8, 1, b"decoy"), os.O_RDONLY)
    os.close(folder)


def _io_uring(_path: str) -> None:
    _call(SYS_IO_URING_SETUP, 1, ctypes.create_string_buffer(120).raw)


def _call(number: int, *arguments: int | bytes) -> None:
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if descriptor >= 0:
        os.close(descriptor)


def _matching_path(pattern: str, folder: Path) -> str:
    """Return a path under no existing folder that matches the pattern with something behind it."""
    filler = f"decoy-{secrets.token_hex(4)}"
    if pattern.startswith("*"):
        return f"{folder}/{filler}-{pattern.strip('*')}"
    return pattern.rstrip("*") + f"-{filler}"
