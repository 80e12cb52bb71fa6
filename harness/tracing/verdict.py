"""From the tracer's log to a Trace: what one subject opened, and whether the tracer could see. Pure.

It judges the lines between two nonces of the keeper; everything there that is not the keeper's is the subject's.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.recording import DeviceEvent, Trace
from harness.tracing.lineage import Lineage
from harness.tracing.strace import OPENS, Call, Log, parse

NOT_TRACED = Trace(traced=False)
IO_URING = "anon_inode:[io_uring]"  # the path of an io_uring_setup event, which has none


@dataclass(frozen=True, slots=True)
class Bracket:
    """The part of the log that was written while one request was asked: [start, end) in bytes."""

    request_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a column hands over at the end of a subject."""

    content: bytes  # of the log, from the subject's start on, whole lines
    offset: int  # where `content` begins in the log
    start_nonce: str  # path that the keeper opened before the subject began
    end_nonce: str  # path that the keeper opened after it had reaped the subject
    problems: tuple[str, ...] = ()  # why the tracer cannot be believed, as the column saw it
    is_whole: bool = False  # the log is at its end: the keeper must have its exit line too


def judge(
    evidence: Evidence,
    watched: Sequence[str],
    holding: Sequence[str],
    brackets: Sequence[Bracket] = (),
    *,
    is_wrapped: bool = False,
) -> Trace:
    """Return what the subject opened. `watched`: shell patterns; `holding`: folders whose opened files are listed.

    `is_wrapped`: the launched process only starts the subject, whose own process is its child.
    """
    log = parse(evidence.content, evidence.offset)
    blind = [*evidence.problems, *(f"a line of the tracer's log cannot be read: {line!r}" for line in log.unparsed[:3])]
    start = _nonce_call(log, evidence.start_nonce)
    end = _nonce_call(log, evidence.end_nonce)
    if start is None:
        blind.append("the start nonce is not in the tracer's log: it was not tracing when the subject began")
    if end is None:
        blind.append("the end nonce is not in the tracer's log: it stopped before the subject's end")
    if start and end and start.tid != end.tid:
        blind.append(f"start nonce by thread {start.tid}, end nonce by thread {end.tid}: not the same keeper")
    keeper = start.tid if start else end.tid if end else -1
    first = start.offset if start else evidence.offset
    last = end.offset if end else evidence.offset + len(evidence.content)
    calls = [call for call in log.calls if first < call.offset < last and call.tid != keeper]
    blind += _missing_ends(log, keeper, first, last, is_whole=evidence.is_whole)
    opens = [call for call in calls if call.name in OPENS]
    return Trace(
        traced=True,
        blind=tuple(blind),
        events=tuple(_events(calls, watched, brackets, Lineage(log.calls, keeper, is_wrapped=is_wrapped))),
        opened=tuple(path for call in opens if (path := _opened_path(call, watched, holding))),
        num_opens=len(opens),
    )


def is_watched(path: str, watched: Sequence[str]) -> bool:
    """Whether an absolute path matches one of the shell patterns; `*` crosses slashes."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in watched)


def _nonce_call(log: Log, nonce: str) -> Call | None:
    return next((call for call in log.calls if call.path == nonce), None)


def _missing_ends(log: Log, keeper: int, first: int, last: int, *, is_whole: bool) -> list[str]:
    """Name each thread that lived between the nonces and has no exit line of its own before the second one."""
    lives = Counter(call.child for call in log.calls if call.child is not None and call.offset > first)
    lives |= Counter({tid: 1 for tid, offset in log.first_seen.items() if first < offset < last})
    blind = []
    for tid, num_lives in sorted(lives.items()):
        ends = [offset for offset in log.ends.get(tid, ()) if offset > first]
        if tid == keeper:
            continue
        if len(ends) < num_lives:
            blind.append(f"thread {tid} has no exit line: the tracer lost it")
        elif any(offset > last for offset in ends):
            blind.append(f"thread {tid} ended after the subject's last line: it outlived its subject")
    if is_whole and keeper not in log.ends:
        blind.append("the keeper has no exit line: the tracer did not see the end")
    return blind


def _events(calls: Sequence[Call], watched: Sequence[str], brackets: Sequence[Bracket], lineage: Lineage) -> list[DeviceEvent]:
    events = []
    for call in calls:
        path = _event_path(call, watched)
        if path is not None:
            request_id = _request_of(call.offset, brackets)
            by_child = not lineage.is_subject(call.tid, call.offset)
            events.append(DeviceEvent(call.name, path, call.tid, call.result, request_id, by_child))
    return events


def _event_path(call: Call, watched: Sequence[str]) -> str | None:
    """Return the path that makes this call an event, None where it is none.

    An open by handle names no path and io_uring can open without a traced call: each is an event wherever it occurs.
    """
    if call.name == "io_uring_setup":
        return IO_URING
    if call.name == "open_by_handle_at":
        return call.folder
    candidates = (call.folder,) if call.name == "ioctl" else _open_candidates(call)
    for path in candidates:
        if path and is_watched(path, watched):
            return path
    return call.path if _could_be_watched(call, watched) else None


def _open_candidates(call: Call) -> tuple[str, ...]:
    return (_asked_path(call), call.result_path) if call.name in OPENS else ()


def _asked_path(call: Call) -> str:
    """Return the absolute, normalized path that was asked for; "" where the folder is not known."""
    path = posixpath.join(call.folder, call.path) if call.folder else call.path
    return posixpath.normpath(path) if path.startswith("/") else ""


def _could_be_watched(call: Call, watched: Sequence[str]) -> bool:
    """Judge a failed relative open whose working folder is unknown by its last component, on the safe side."""
    if call.name not in ("open", "creat") or call.succeeded or not call.path or call.path.startswith("/"):
        return False
    name = posixpath.basename(posixpath.normpath(call.path))
    return any(fnmatch.fnmatchcase(name, posixpath.basename(pattern)) for pattern in watched)


def _opened_path(call: Call, watched: Sequence[str], holding: Sequence[str]) -> str:
    if not call.succeeded:
        return ""
    path = call.result_path or _asked_path(call)
    held = any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in holding)
    return path if held or is_watched(path, watched) else ""


def _request_of(offset: int, brackets: Sequence[Bracket]) -> str:
    """Name the request whose bracket holds the offset; "" where none does, or several."""
    found = [bracket.request_id for bracket in brackets if bracket.start <= offset < bracket.end]
    return found[0] if len(found) == 1 else ""
