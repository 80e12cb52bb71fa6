"""What a subject opens and submits: no accelerator on a host arm; on a device arm the path it was told, once, and its passes.

It believes the tracer alone, and only where the tracer could see. Of what the subject says it reads the counts of the passes, to
hold them against the submits that were counted from outside.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

from harness.checks.check import Check, Ledger
from harness.checks.evidence import Case, Evidence
from harness.checks.walks import predicted
from harness.records.finding import Verdict
from harness.records.need import Need
from harness.records.recording import DeviceEvent, Recording

WEIGHT_FILES = frozenset({".q4nx", ".safetensors", ".gguf"})
SUBMIT = "ioctl"
WARM_UP = 1  # passes before ready


def _judge_device_opens(evidence: Evidence, ledger: Ledger) -> None:
    for recording in evidence.run.recordings:
        if not recording.trace.traced:
            continue
        ledger.examine(recording.start.id)
        if not _can_see(recording, ledger):
            continue
        if evidence.facts(recording.start).device:
            _judge_device_events(recording, ledger)
        else:
            for event in recording.trace.events:
                _stray(recording, event, "tried a watched path on a host arm", ledger)
        _judge_weights(evidence, recording, ledger)


def _can_see(recording: Recording, ledger: Ledger) -> bool:
    trace = recording.trace
    for reason in trace.blind:
        ledger.blind(recording.start.id, "the trace is blind", want="a complete trace", got=reason)
    if not trace.blind and trace.num_opens == 0 and not recording.failure:
        ledger.blind(recording.start.id, "the trace holds no open at all", want="num_opens > 0", got=0)
        return False
    return not trace.blind


def _judge_device_events(recording: Recording, ledger: Ledger) -> None:
    """A device arm opens the path that it was told, once, in its own process, before it is ready; it tries no other."""
    start, told = recording.start, recording.device
    if not told:
        ledger.blind(start.id, "nobody says which path the subject was told to open", want="a device", got=None)
        return
    opens: list[DeviceEvent] = []
    for event in recording.trace.events:
        if event.path != told:
            _stray(recording, event, f"tried a watched path beside {told}", ledger)
        elif event.call != SUBMIT:
            opens.append(event)
    may_be_none = start.expect == "refused" or bool(recording.failure)
    if len(opens) > 1 or (not opens and not may_be_none):
        ledger.fault_of_start(start.id, f"opened its device {len(opens)} times", want=1, got=[_told(event) for event in opens])
    for event in opens:
        _judge_open(recording, event, ledger)


def _judge_open(recording: Recording, event: DeviceEvent, ledger: Ledger) -> None:
    if event.by_child:
        message = "its device was opened by another process than its own"
    elif event.request_id:
        message = f"opened its device during {event.request_id}, not before it was ready"
    elif not event.result.isdigit():
        message = "could not open its device"
    else:
        return
    ledger.fault_of_start(recording.start.id, message, want=f"one open of {recording.device}", got=_told(event))


def _stray(recording: Recording, event: DeviceEvent, what: str, ledger: Ledger) -> None:
    """Write down a watched path that was tried, whatever the attempt returned, or a way that would hide one."""
    during = f" during {event.request_id}" if event.request_id else ""
    message = f"{what}{during}"
    if event.call == "io_uring_setup":
        message = f"set up io_uring{during}, whose opens nobody sees"
    ledger.fault_of_start(recording.start.id, message, want="no watched path", got=_told(event))


def _told(event: DeviceEvent) -> str:
    return f"{event.call} {event.path} = {event.result} (tid {event.tid})"


def _judge_weights(evidence: Evidence, recording: Recording, ledger: Ledger) -> None:
    """The container is opened once, and so is the pack where there is one; a start that refuses may stop before.

    A subject may be known to open a file more often; a pack that is not drafted with need not be opened.
    """
    start, most = recording.start, evidence.declared.most_opens
    opened = Counter(path for path in recording.trace.opened if PurePosixPath(path).suffix in WEIGHT_FILES)
    for path, count in opened.items():
        if count > most:
            ledger.fault_of_start(start.id, f"opened {path} {count} times", want=most, got=count)
    want = 1 + (start.pack is not None)
    may_be_fewer = start.expect == "refused" or bool(recording.failure)
    may_be_fewer = may_be_fewer or (bool(opened) and evidence.facts(start).expect == "not-engaged")
    if len(opened) > want or (len(opened) < want and not may_be_fewer):
        what = "container and pack" if start.pack else "container"
        ledger.fault_of_start(start.id, f"did not open exactly its {what}", want=want, got=sorted(opened))


def _judge_device_passes(evidence: Evidence, ledger: Ledger) -> None:
    for recording in evidence.run.recordings:
        if recording.trace.traced and evidence.facts(recording.start).device and _can_see(recording, ledger):
            _judge_submits(evidence, recording, ledger)
    wanted = predicted(evidence, "device-passes")
    if wanted is not None and not any(want.rounds for _, want in wanted):
        ledger.blind("", "no request of the plan must make a round on a device", want="rounds > 0", got=0)


def _judge_submits(evidence: Evidence, recording: Recording, ledger: Ledger) -> None:
    """Each request's submits are its passes; the warm-up's alone belongs to none, so that the total is right too."""
    start = recording.start
    submits = [event for event in recording.trace.events if event.call == SUBMIT and event.path == recording.device]
    counted = Counter(event.request_id for event in submits)
    if counted[""] != WARM_UP:
        ledger.fault_of_start(start.id, "submits outside of requests are not one warm-up pass", want=WARM_UP, got=counted[""])
    if any(event.by_child for event in submits):
        ledger.fault_of_start(start.id, "another process than its own submits to its device", want="none", got="some")
    width = evidence.declared.width_of(start.arm)
    for case in evidence.all_cases:
        if case.start.id != start.id:
            continue
        want = _num_passes(case, width)
        if want is not None:
            ledger.examine(start.id)
            _compare_submits(case, want, counted[case.request.id], ledger)
        elif "device-passes" in case.request.checks and ledger.reply(case) is not None:
            ledger.fault(case, "no counts came with the answer", want="counts", got=None)


def _compare_submits(case: Case, want: int, got: int, ledger: Ledger) -> None:
    if got == want:
        return
    counts = case.answer.counts
    seen = f"prompt={len(case.request.prompt_ids)} " if counts else "refused"
    if counts is not None:
        seen += f"cached={counts.cached} rounds={counts.rounds} plain={counts.plain}"
    ledger.fault(case, f"submits are not its passes ({seen})", want=want, got=got)


def _num_passes(case: Case, width: int) -> int | None:
    """Return the passes that a request must have cost by its own counts; None where it does not say, or a pass of it failed."""
    answer, request = case.answer, case.request
    if request.method == "GET" or (answer.status is not None and 400 <= answer.status < 500):
        return 0
    counts = answer.counts
    if counts is None or counts.num_passes is None or counts.cached is None:
        return None
    if counts.reason == "failed" or not request.prompt_ids:
        return None
    num_prefilled = len(request.prompt_ids) - counts.cached
    return -(-num_prefilled // width) + counts.num_passes


CHECKS: tuple[Check, ...] = (
    Check(
        "device-opens",
        Verdict.DEVICE,
        "A host arm tries no watched path, a device arm opens its own once; containers and packs are opened once.",
        _judge_device_opens,
        needs_trace=True,
    ),
    Check(
        "device-passes",
        Verdict.DEVICE,
        "Submits counted from outside are one warm-up, and for each request its prefill chunks, rounds and plain steps.",
        _judge_device_passes,
        needs=(Need.COUNTS,),
        needs_trace=True,
    ),
)
