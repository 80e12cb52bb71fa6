"""A running subject: ask it, read its log, end it. Cold or warm makes no difference here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.records.budget import Cause
from harness.records.plan import Request
from harness.records.recording import Answer, Counts, Dump, Trace
from harness.subjects.answers import identity_of, read_answer
from harness.subjects.client import LEFT, REFUSED, RESET, Exchange, Lane
from harness.subjects.counts import CountsError, find_lines, is_counts_line, parse_line
from harness.subjects.description import Description
from harness.subjects.device import GivenDevice
from harness.subjects.dialects import sent
from harness.subjects.dumps import DumpError, read_dump
from harness.subjects.log_pump import LogPump
from harness.subjects.metrics_witness import MetricsWitness
from harness.subjects.tables import CountsSource
from harness.tracing.verdict import Bracket

SERVER_ERROR = 500
DYING_S = 1.0  # how long a process that refuses connections is given to end by itself


@dataclass(frozen=True, slots=True)
class Ended:
    """How a subject ended, what it wrote, and what the tracer saw of it."""

    exit_status: int | None  # None: ended by us; negative: the signal that killed it before
    cause: Cause
    log: tuple[str, ...]
    trace: Trace
    cpu_seconds: float
    peak_rss_mib: float
    device: GivenDevice | None = None  # what it was told to open


@dataclass(frozen=True, slots=True)
class Handle:
    """What a launcher lends a running subject."""

    log_size: Callable[[], int]  # bytes of the tracer's log
    end: Callable[[Sequence[Bracket]], Ended]


class RunningSubject:
    """A subject that has said that it is ready."""

    def __init__(
        self,
        description: Description,
        base_url: str,
        ready_line: str,
        pump: LogPump,
        handle: Handle,
        *,
        scratch: Path,
        wall_deadline: float | None = None,
        dump: str = "",
        drafts: bool = True,
    ) -> None:
        self.base_url = base_url
        self.ready_line = ready_line
        self.scratch = scratch  # its working folder, where {scratch} points
        self._description = description
        self._pump = pump
        self._handle = handle
        self._wall_deadline = wall_deadline  # monotonic; no answer is waited for beyond it
        self._dump = dump  # name of the file that it leaves in its scratch folder for each answer; "" = none
        self._lane = Lane(base_url)
        metrics = description.counts.metrics
        self._metrics = None if metrics is None else MetricsWitness(metrics, self._lane, drafts=drafts)
        self._brackets: list[Bracket] = []
        self._ended: Ended | None = None
        self._seems_dead = False

    def log_lines(self) -> tuple[str, ...]:
        """Return everything that it has written by now, line by line."""
        self._pump.drain()
        return self._pump.lines()

    @property
    def has_exited(self) -> bool:
        """Whether it has ended by itself."""
        return self._pump.has_ended

    def ask(self, request: Request) -> Answer:
        """Send one request and return what came back; never raises for anything that the subject does."""
        return self._witnessed(request)

    def ask_all(self, requests: Sequence[Request]) -> tuple[Answer, ...]:
        """Send the requests at once, each over a connection of its own; return the answers in their order."""
        if not requests:
            return ()
        if self._metrics is not None:
            self._metrics.forget()
        gate = threading.Barrier(len(requests))

        def ask(request: Request) -> Answer:
            lane = Lane(self.base_url)
            gate.wait()
            try:
                return self._ask(request, lane, alone=False)
            finally:
                lane.close()

        with ThreadPoolExecutor(len(requests)) as pool:
            return tuple(pool.map(ask, requests))

    def end(self) -> Ended:
        """End its process tree for certain and close its trace. Called again, it returns the same."""
        if self._ended is None:
            self._lane.close()
            if self._seems_dead:  # its sockets close before its status is known
                self._pump.wait_for(lambda _lines: False, 0, time.monotonic() + DYING_S)
            self._ended = self._handle.end(tuple(self._brackets))
        return self._ended

    def _ask(self, request: Request, lane: Lane, *, alone: bool) -> Answer:
        start = self._handle.log_size()
        self._pump.drain()
        first_line = self._pump.num_lines
        exchange = lane.exchange(sent(request, self._description), self._time_left(request.deadline_s))
        self._seems_dead = exchange.failure in (RESET, REFUSED)
        if exchange.is_stream and self._description.dialect.closes_after_stream:
            lane.renew()
        answer = read_answer(request, exchange, self._description)
        counts, failure = self._counts(answer, exchange, first_line if alone else None)
        self._brackets.append(Bracket(request.id, start, self._handle.log_size()))
        dump, no_dump = self._dump_of(answer)
        failure = answer.failure or failure or no_dump
        return msgspec.structs.replace(answer, counts=counts or answer.counts, dump=dump, failure=failure)

    def _witnessed(self, request: Request) -> Answer:
        """Ask one request alone, with a reading of the metrics before and after it where the subject has some."""
        if self._metrics is None:
            return self._ask(request, self._lane, alone=True)
        no_reading = self._metrics.open()
        answer = self._ask(request, self._lane, alone=True)
        if answer.reply is None or answer.failure or no_reading:
            self._metrics.forget()
            return msgspec.structs.replace(answer, failure=answer.failure or no_reading)
        counts, failure = self._metrics.close(answer.reply)
        if answer.counts is None:  # the only witness is the first
            return msgspec.structs.replace(answer, counts=counts, failure=failure)
        return msgspec.structs.replace(answer, usage_counts=counts, failure=failure)

    def _dump_of(self, answer: Answer) -> tuple[Dump | None, str]:
        """Return the file of logits of an answer, or why it cannot be read; (None, "") where there is none."""
        if not self._dump or answer.reply is None:
            return None, ""
        try:
            return read_dump(self.scratch, self._dump, answer.reply.response_id), ""
        except DumpError as error:
            return None, str(error)

    def _time_left(self, deadline_s: float) -> float:
        if self._wall_deadline is None:
            return deadline_s
        return min(deadline_s, self._wall_deadline - time.monotonic())

    def _counts(self, answer: Answer, exchange: Exchange, first_line: int | None) -> tuple[Counts | None, str]:
        """Return the log line's counts, or why they cannot be read; (None, "") where there is no line to expect.

        A whole answer is found by its id. One without an id (a failed forward, a client that left at once) has the only
        new line since it was sent, where it was asked alone (`first_line`).
        """
        source = self._description.counts
        identity = identity_of(answer, exchange)
        left = exchange.failure == LEFT
        if not source.line_prefix or not (identity or left or (answer.status or 0) >= SERVER_ERROR):
            return None, ""
        wait_s = source.cancelled_wait_s if left else source.wait_s
        if identity:
            return self._counts_of(identity, source, wait_s)
        if first_line is None:
            return None, ""
        return self._only_new_counts(first_line, source, wait_s)

    def _counts_of(self, identity: str, source: CountsSource, wait_s: float) -> tuple[Counts | None, str]:
        def found(lines: list[str]) -> bool:
            return bool(find_lines(lines, source.line_prefix, identity))

        self._pump.wait_for(found, 0, time.monotonic() + wait_s)
        return _read_lines(find_lines(self.log_lines(), source.line_prefix, identity), source)

    def _only_new_counts(self, first_line: int, source: CountsSource, wait_s: float) -> tuple[Counts | None, str]:
        def found(lines: list[str]) -> bool:
            return any(is_counts_line(line, source.line_prefix) for line in lines)

        self._pump.wait_for(found, first_line, time.monotonic() + wait_s)
        new = [line for line in self.log_lines()[first_line:] if is_counts_line(line, source.line_prefix)]
        return _read_lines(new, source)


def _read_lines(lines: Sequence[str], source: CountsSource) -> tuple[Counts | None, str]:
    if len(lines) > 1:
        return None, f"counts: {len(lines)} lines of one request, the first {lines[0]!r}"
    if not lines:
        return None, ""
    try:
        return parse_line(lines[0], source.line_prefix)[1], ""
    except CountsError as error:
        return None, f"counts: {error}"
