"""Whose thread made a call: the subject's own process, or one that it started. Knows clones, and no path.

The keeper forks a guard and the guard forks the launched process, which is two forks away from the keeper; threads are no forks.
The launched process is the subject, or a wrapper whose child is.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.tracing.strace import Call

NUM_FORKS = 2  # from the keeper to the launched process


class Lineage:
    """The threads of one stay by how they were made."""

    def __init__(self, calls: Iterable[Call], keeper: int, *, is_wrapped: bool = False) -> None:
        self._keeper = keeper
        self._num_forks = NUM_FORKS + is_wrapped
        self._births: dict[int, list[Call]] = {}  # in the order of the log
        for call in calls:
            if call.child is not None:
                self._births.setdefault(call.child, []).append(call)

    def is_subject(self, tid: int, offset: int) -> bool:
        """Whether the thread that had this number at this place of the log is one of the subject's own process.

        False also for a thread whose making the tracer did not see.
        """
        num_forks = 0
        seen: set[Call] = set()  # numbers are used again, so a log that lost lines could lead in a circle
        while tid != self._keeper:
            birth = self._birth(tid, offset)
            if birth is None or birth in seen:
                return False
            seen.add(birth)
            num_forks += not birth.makes_thread
            tid, offset = birth.tid, birth.offset
        return num_forks == self._num_forks

    def _birth(self, tid: int, offset: int) -> Call | None:
        """Return the clone that made the thread: the last one before; else the first, whose line may come after its child's."""
        births = self._births.get(tid, [])
        before = [birth for birth in births if birth.offset <= offset]
        return before[-1] if before else births[0] if births else None
