"""Runs whose traces are changed. For tests only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from harness.records.recording import DeviceEvent, Run
from tests.harness.checks.families import run_of

Events = tuple[DeviceEvent, ...]


def with_trace(check_id: str, start_id: str, run: Run | None = None, **changes: Any) -> Run:
    """Return a run, the clean one of a check's smallest plan by default, with the trace of one start changed."""
    run = run or run_of(check_id)
    recordings = tuple(
        msgspec.structs.replace(one, trace=msgspec.structs.replace(one.trace, **changes)) if one.start.id == start_id else one
        for one in run.recordings
    )
    return msgspec.structs.replace(run, recordings=recordings)


def with_events(check_id: str, start_id: str, change: Callable[[Events], Events], run: Run | None = None) -> Run:
    """Return a run with the device events of one start passed through `change`."""
    run = run or run_of(check_id)
    (events,) = (one.trace.events for one in run.recordings if one.start.id == start_id)
    return with_trace(check_id, start_id, run, events=change(events))
