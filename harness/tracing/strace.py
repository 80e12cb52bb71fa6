"""strace's command line, and its log as values. Knows the text and nothing of watched paths or verdicts.

Every line must parse: a line that is not understood is returned as such, and whoever judges is blind then.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

OPENS = ("open", "openat", "openat2", "creat", "open_by_handle_at")
CLONES = ("clone", "clone3", "fork", "vfork")
CALLS = (*OPENS, "io_uring_setup", "ioctl", *CLONES)

_STRING = r'(?:"(?P<path>(?:[^"\\]|\\.)*)"(?:\.\.\.)?|NULL|0x[0-9a-f]+)'
_FD = r"(?:AT_FDCWD|-?\d+)(?:<(?P<fd_path>(?:[^>\\]|\\.)*)>(?:\(deleted\))?)?"
_RESULT = (
    r"\)\s+= (?P<value>-?\d+|0x[0-9a-f]+|\?)"
    r"(?:<(?P<result_path>(?:[^>\\]|\\.)*)>(?:\(deleted\))?)?"
    r"(?: (?P<errno>E[A-Z0-9]+))?"
    r"(?: /\* (?P<tid>\d+) in strace's PID NS \*/)?"
    r"(?: \(.*\)| <unavailable>)?$"
)
_LINE = re.compile(r"^(?P<tid>\d+)\s+(?P<time>\d+\.\d{6}) (?P<rest>.*)$", re.DOTALL)
_END = re.compile(r"^\+\+\+ (?P<how>exited with \d+|killed by \w+(?: \(core dumped\))?) \+\+\+$")
_ASIDE = re.compile(r"^(?:--- .* ---|\+\+\+ superseded by execve in pid \d+ \+\+\+)$", re.DOTALL)
_PATH_CALL = re.compile(rf"^(?P<name>\w+)\({_STRING}.*?{_RESULT}", re.DOTALL)
_AT_CALL = re.compile(rf"^(?P<name>\w+)\({_FD}, {_STRING}.*?{_RESULT}", re.DOTALL)
_FD_CALL = re.compile(rf"^(?P<name>\w+)\({_FD}, .*?{_RESULT}", re.DOTALL)
_OTHER_CALL = re.compile(rf"^(?P<name>\w+)\(.*?{_RESULT}", re.DOTALL)
_SHAPES = {
    **dict.fromkeys(("open", "creat"), _PATH_CALL),
    **dict.fromkeys(("openat", "openat2"), _AT_CALL),
    **dict.fromkeys(("open_by_handle_at", "ioctl"), _FD_CALL),
    **dict.fromkeys(("io_uring_setup", *CLONES), _OTHER_CALL),
}
_UNFINISHED = re.compile(r" ?<unfinished \.\.\.>(?P<died>\)\s+= \?)?$")
_RESUMED = re.compile(r"^<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)$", re.DOTALL)
_ESCAPE = re.compile(rb'\\([0-7]{1,3}|x[0-9a-fA-F]{2}|[abfnrtv"\'\\])')
_LETTERS = {b"a": 7, b"b": 8, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11, b'"': 34, b"'": 39, b"\\": 92}


@dataclass(frozen=True, slots=True)
class Call:
    """One traced system call."""

    tid: int
    offset: int  # byte offset in the log of the line on which it begins
    name: str
    path: str  # as it was passed; "" where the call passes none
    folder: str  # what the passed descriptor (or AT_FDCWD) stood for; "" where strace did not say
    result: str  # "3", "-1 ENOENT", "?" when its thread died in it
    result_path: str  # what the returned descriptor stands for; "" for none
    child: int | None = None  # the tid that a clone returned, as the tracer numbers it
    makes_thread: bool = False  # the child is a thread of the same process

    @property
    def succeeded(self) -> bool:
        """Whether it returned a descriptor, a child or 0."""
        return self.result.isdigit()


@dataclass(slots=True)
class Log:
    """The parsed part of a log."""

    calls: list[Call] = field(default_factory=list)
    ends: dict[int, list[int]] = field(default_factory=dict)  # tid -> offsets of its exit lines
    first_seen: dict[int, int] = field(default_factory=dict)  # tid -> offset of its first line
    unparsed: list[str] = field(default_factory=list)


def tracer_argv(strace: str, log: str) -> tuple[str, ...]:
    """Return the words that put a program under strace, all threads and children, into the file `log`."""
    flags = ("-f", "--seccomp-bpf", "-ttt", "-y", "--pidns-translation", "-e", "signal=!SIGCHLD")
    return (strace, *flags, "-e", "trace=" + ",".join(CALLS), "-o", log)


def parse(content: bytes, offset: int = 0) -> Log:
    """Parse whole lines of a log; `offset` is where `content` begins in the file. Never raises."""
    log = Log()
    pending: dict[int, tuple[int, str]] = {}
    *lines, rest = content.split(b"\n")
    for line in lines:
        text = os.fsdecode(line)
        if not _take(log, pending, offset, text):
            log.unparsed.append(text)
        offset += len(line) + 1
    if rest:
        log.unparsed.append(os.fsdecode(rest))
    for tid, (start, text) in pending.items():  # begun and never returned: it was tried all the same
        _add_call(log, tid, start, f"{text}) = ?")
    return log


def unescape(text: str) -> str:
    r"""Undo strace's C escapes in a path: `\n`, `\"`, `\303`."""
    return os.fsdecode(_ESCAPE.sub(_unescape_one, os.fsencode(text)))


def _take(log: Log, pending: dict[int, tuple[int, str]], offset: int, text: str) -> bool:
    """Add one line to the log; False where it cannot be understood."""
    line = _LINE.match(text)
    if line is None:
        return False
    tid, rest = int(line["tid"]), line["rest"]
    log.first_seen.setdefault(tid, offset)
    if _END.match(rest):
        log.ends.setdefault(tid, []).append(offset)
        return True
    return bool(_ASIDE.match(rest)) or _take_call(log, pending, offset, tid, rest)


def _take_call(log: Log, pending: dict[int, tuple[int, str]], offset: int, tid: int, text: str) -> bool:
    """Add a call, joining the two halves of one that another thread's line interrupted."""
    resumed = _RESUMED.match(text)
    if resumed is not None:
        if tid not in pending or not pending[tid][1].startswith(f"{resumed['name']}("):
            return False
        offset, begun = pending.pop(tid)
        text = begun + resumed["rest"]
    unfinished = _UNFINISHED.search(text)
    if unfinished is None:
        return _add_call(log, tid, offset, text)
    if unfinished["died"]:
        return _add_call(log, tid, offset, f"{text[: unfinished.start()]}) = ?")
    if tid in pending:
        return False
    pending[tid] = (offset, text[: unfinished.start()])
    return True


def _add_call(log: Log, tid: int, offset: int, text: str) -> bool:
    shape = _SHAPES.get(text.partition("(")[0])
    match = shape.match(text) if shape else None
    if match is None:
        return False
    groups = {"path": None, "fd_path": None, **match.groupdict()}
    result = match["value"] + (f" {match['errno']}" if match["errno"] else "")
    child = None
    if match["name"] in CLONES and result.isdigit():
        child = int(match["tid"] or result)
    log.calls.append(
        Call(
            tid=tid,
            offset=offset,
            name=match["name"],
            path=unescape(groups["path"] or ""),
            folder=unescape(groups["fd_path"] or ""),
            result=result,
            result_path=unescape(match["result_path"] or ""),
            child=child,
            makes_thread=child is not None and "CLONE_THREAD" in text,
        )
    )
    return True


def _unescape_one(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code in _LETTERS:
        return bytes([_LETTERS[code]])
    return bytes([int(code[1:], 16) if code.startswith(b"x") else int(code, 8) & 255])
