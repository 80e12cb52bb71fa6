"""Asks a running subject for its counters around each request that is sent alone: the second witness of its counts.

A reading is kept from one request to the next, so that each costs one question. It does not know what was asked in between.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from harness.records.plan import Request
from harness.records.recording import Counts, Reply
from harness.subjects.client import Lane
from harness.subjects.counts import CountsError
from harness.subjects.metrics import difference, read_metrics
from harness.subjects.tables import MetricsSource

DEADLINE_S = 5.0
OK = 200


class MetricsWitness:
    """The counters of one process. Not for several threads at once."""

    def __init__(self, source: MetricsSource, lane: Lane, *, drafts: bool) -> None:
        """Read from `lane`. `drafts`: the arm may draft; else counters of drafts may be missing, and are 0."""
        self._source = source
        self._may_lack = () if drafts else (source.drafted, source.accepted, source.rounds)
        self._lane = lane
        self._before: Mapping[str, int] | None = None

    def open(self) -> str:
        """Take a reading, unless the last one still stands; return why there is none, or ""."""
        if self._before is None:
            try:
                self._before = self._read()
            except CountsError as error:
                return str(error)
        return ""

    def close(self, reply: Reply) -> tuple[Counts | None, str]:
        """Return what was counted since `open` for the request that this reply came for, or why that cannot be told."""
        assert self._before is not None, "close without open"
        before, self._before = self._before, None
        try:
            self._before = self._read()
            counts = difference(before, self._before, self._source, reply)
        except CountsError as error:
            return None, str(error)
        return counts, ""

    def forget(self) -> None:
        """Drop the reading: something ran since whose counts belong to nobody."""
        self._before = None

    def _read(self) -> Mapping[str, int]:
        """Read the counters once they stand still: what was broken off before may still be worked on."""
        deadline = time.monotonic() + DEADLINE_S
        reading = self._read_once()
        while self._source.busy and reading[self._source.busy]:
            if time.monotonic() > deadline:
                raise CountsError(f"metrics: {self._source.busy} is not 0 in {DEADLINE_S:g} s after the last answer")
            reading = self._read_once()  # answered between two passes of what is still worked on
        return reading

    def _read_once(self) -> Mapping[str, int]:
        exchange = self._lane.exchange(Request(id="", checks=(), path=self._source.path, method="GET"), DEADLINE_S)
        if exchange.status != OK:
            raise CountsError(f"metrics: {self._source.path} answered {exchange.status or exchange.failure}; want {OK}")
        return read_metrics(exchange.body.decode("utf-8", errors="replace"), self._source, self._may_lack)
