"""What a subject opens: no accelerator on a host arm, and each container and pack once.

It believes the tracer alone, and only where the tracer could see; it does not know what the subject says of itself.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

from harness.checks.check import Check, Ledger
from harness.checks.evidence import Evidence
from harness.records.finding import Verdict
from harness.records.recording import Recording

WEIGHT_FILES = frozenset({".q4nx", ".safetensors", ".gguf"})


def _judge_device_opens(evidence: Evidence, ledger: Ledger) -> None:
    for recording in evidence.run.recordings:
        if not recording.trace.traced:
            continue
        ledger.examine(recording.start.id)
        if _can_see(recording, ledger):
            _judge_events(recording, ledger)
            _judge_weights(recording, ledger)


def _can_see(recording: Recording, ledger: Ledger) -> bool:
    trace = recording.trace
    for reason in trace.blind:
        ledger.blind(recording.start.id, "the trace is blind", want="a complete trace", got=reason)
    if not trace.blind and trace.num_opens == 0 and not recording.failure:
        ledger.blind(recording.start.id, "the trace holds no open at all", want="num_opens > 0", got=0)
        return False
    return not trace.blind


def _judge_events(recording: Recording, ledger: Ledger) -> None:
    """A host arm tries no watched path, whatever the attempt returned, and uses nothing that would hide one."""
    for event in recording.trace.events:
        during = f" during {event.request_id}" if event.request_id else ""
        if event.call == "io_uring_setup":
            message = f"set up io_uring{during}, whose opens nobody sees"
        else:
            message = f"tried a watched path on a host arm{during}"
        got = f"{event.call} {event.path} = {event.result} (tid {event.tid})"
        ledger.fault_of_start(recording.start.id, message, want="no watched path", got=got)


def _judge_weights(recording: Recording, ledger: Ledger) -> None:
    """The container is opened once, and so is the pack where there is one; a start that refuses may stop before."""
    start = recording.start
    opened = Counter(path for path in recording.trace.opened if PurePosixPath(path).suffix in WEIGHT_FILES)
    for path, count in opened.items():
        if count > 1:
            ledger.fault_of_start(start.id, f"opened {path} {count} times", want=1, got=count)
    want = 1 + (start.pack is not None)
    may_be_fewer = start.expect == "refused" or bool(recording.failure)
    if len(opened) > want or (len(opened) < want and not may_be_fewer):
        what = "container and pack" if start.pack else "container"
        ledger.fault_of_start(start.id, f"did not open exactly its {what}", want=want, got=sorted(opened))


CHECKS: tuple[Check, ...] = (
    Check(
        "device-opens",
        Verdict.DEVICE,
        "No watched path is tried on a host arm, and containers and packs are opened once.",
        _judge_device_opens,
        needs_trace=True,
    ),
)
