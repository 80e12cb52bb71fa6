"""One subject's stay in a column: from its start through its ready line to what its log and the tracer say at the end."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.subjects.device import GivenDevice
from harness.subjects.log_pump import LogPump
from harness.subjects.process_tree import Job, ProcessTree, Report
from harness.subjects.subject import Cause, Ended
from harness.tracing.verdict import NOT_TRACED, Bracket, judge

BUDGET_SHARE = 0.5  # the limit counts ticks, the report run time: on a busy core 1.0 s of the one was 0.68 s of the other


@dataclass(frozen=True, slots=True)
class Interest:
    """What the tracer is asked about this subject."""

    watched: tuple[str, ...]  # shell patterns
    holding: tuple[str, ...]  # real paths of the folders whose opened files are listed
    device: GivenDevice | None = None  # what it was told to open
    is_wrapped: bool = False  # the launched process only starts it


class Stay:
    """A started subject. `end` must be called."""

    def __init__(self, tree: ProcessTree, job: Job, interest: Interest, *, listener: int | None, is_only: bool) -> None:
        """Start the job. `is_only`: the column ends with it. Raises MachineError, with the column closed then."""
        self._tree = tree
        self._job = job
        self._interest = interest
        self._is_only = is_only
        self._pipe, writer = os.pipe()
        try:
            self._leash = tree.start(job, writer, listener)
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(writer)
        self.pump = LogPump(self._pipe, self._leash.pidfd)

    @property
    def log_size(self) -> int:
        """Bytes of the tracer's log by now."""
        return self._tree.log_size

    def await_line(self, pattern: re.Pattern[str], deadline: float) -> re.Match[str] | None:
        """Wait for the first log line that matches; None when the subject ends before, or time is up."""
        found: list[re.Match[str]] = []

        def look(lines: list[str]) -> bool:
            found[:] = [match for line in lines if (match := pattern.search(line))][:1]
            return bool(found)

        self.pump.wait_for(look, 0, deadline)
        return found[0] if found else None

    def await_exit(self, timeout_s: float) -> bool:
        """Wait until the subject ends by itself; False when time is up."""
        self.pump.wait_for(lambda _lines: False, 0, time.monotonic() + timeout_s)
        return self.pump.has_ended

    def end(self, brackets: Sequence[Bracket] = ()) -> Ended:
        """End the subject for certain and judge its trace. Call it once; it never raises."""
        report = self._tree.end(self._leash, last=self._is_only)
        self.pump.stop()
        os.close(self._pipe)
        os.close(self._leash.pidfd)
        evidence = report.evidence
        asked = self._interest
        trace = NOT_TRACED
        if evidence:
            trace = judge(evidence, asked.watched, asked.holding, brackets, is_wrapped=asked.is_wrapped)
        cause = _cause(report, self._job.cpu_budget_s)
        return Ended(
            exit_status=None if cause is Cause.ENDED else report.exit_status,
            cause=cause,
            log=self.pump.lines(),
            trace=trace,
            cpu_seconds=report.cpu_seconds,
            peak_rss_mib=report.peak_rss_mib,
            device=self._interest.device,
        )


def _cause(report: Report, cpu_budget_s: float | None) -> Cause:
    if report.exit_status is None:
        return Cause.LOST
    if report.exit_status not in (-signal.SIGKILL, -signal.SIGXCPU):
        return Cause.EXITED
    if report.was_killed:
        return Cause.ENDED
    if cpu_budget_s is not None and report.cpu_seconds >= cpu_budget_s * BUDGET_SHARE:
        return Cause.CPU_BUDGET
    return Cause.EXITED
