"""The law on refusals: what cannot be served is refused by name, at the start or for one request, and nothing else is touched."""

from __future__ import annotations

import re
from typing import Any

from harness.checks.check import Check, Ledger
from harness.checks.compare import asked_of, served, starts_of, untouched
from harness.checks.evidence import Case, Evidence
from harness.records.finding import Verdict
from harness.records.need import Need
from harness.records.recording import Recording

CHECK = "refusals"
REFUSED, ALONE, PROBE = "refused", "alone", "probe"  # roles
EXIT_REFUSED = 2


def _judge_refusals(evidence: Evidence, ledger: Ledger) -> None:
    for start_id, cases in starts_of(evidence, CHECK).items():
        if cases[0].start.expect == "refused":
            ledger.examine(start_id)
            _judge_refused_start(ledger, cases[0], evidence.recording(start_id))
        else:
            _judge_requests(evidence, ledger, cases)


def _judge_refused_start(ledger: Ledger, case: Case, recording: Recording | None) -> None:
    """Hold a start that must be refused: exit status, one line that names place and value, and nothing that answers."""
    start = case.start
    if recording is None:
        ledger.fault_of_start(start.id, "was never started", want="a refusal", got=None)
        return
    if recording.ready_line or case.answer.status is not None:
        seen = recording.ready_line or f"status {case.answer.status}"
        ledger.fault_of_start(start.id, "serves, though it must refuse to start", want=f"exit {EXIT_REFUSED}", got=seen)
        return
    lines = [line for line in recording.log if line.strip()]
    if recording.exit_status != EXIT_REFUSED:
        got = recording.failure or f"exit {recording.exit_status}: {' | '.join(lines[-3:])}"
        ledger.fault_of_start(start.id, "did not refuse to start", want=f"exit {EXIT_REFUSED}", got=got)
    elif len(lines) != 1:
        ledger.fault_of_start(start.id, f"refused in {len(lines)} lines", want="one line", got=lines[:20])
    elif not re.search(start.refusal, lines[0]):
        ledger.fault_of_start(start.id, "refused without naming place and value", want=start.refusal, got=lines[0])


def _judge_requests(evidence: Evidence, ledger: Ledger, cases: list[Case]) -> None:
    """Hold each refused request of a start, and each probe between them against the one before all."""
    alone = {asked_of(case): case for case in cases if ALONE in case.request.roles}
    for case in cases:
        ledger.examine(case.start.id)
        if REFUSED in case.request.roles:
            _judge_refused_request(ledger, case)
        elif PROBE in case.request.roles:
            untouched(evidence, ledger, case, alone.get(asked_of(case)))
        else:
            served(evidence, ledger, case)


def _judge_refused_request(ledger: Ledger, case: Case) -> None:
    """Hold status and error body; the message is one line that names the field, which is `param` too."""
    answer, request = case.answer, case.request
    if answer.status != request.expect:
        got = answer.status if answer.status is not None else answer.failure
        ledger.fault(case, "was not refused as it must be", want=f"status {request.expect}", got=got)
        return
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    if not isinstance(error, dict):
        ledger.fault(
            case,
            "the refusal has no error object",
            want={"error": {"message": "...", "type": "...", "param": "..."}},
            got=answer.body,
        )
        return
    fault = _fault_of(error, request.refusal)
    if fault:
        ledger.fault(case, fault, want=request.refusal or "the body as a whole", got=error)


def _fault_of(error: dict[str, Any], param: str) -> str:
    """Return what is wrong with an error that must name `param`; "" where nothing is."""
    message = error.get("message")
    if not isinstance(message, str) or not message.strip() or "\n" in message:
        return "the refusal's message is not one line"
    if not isinstance(error.get("type"), str):
        return "the refusal has no type"
    if (error.get("param") or "") != param:
        return "the refusal's param is not the field that is wrong"
    if param not in message:
        return "the refusal's message does not name the field that is wrong"
    return ""


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.MISMATCH,
        "Bad flags, packs, containers and bodies are refused by name with the right status, and the next request is untouched.",
        _judge_refusals,
        reads_order=True,
        needs=(Need.REFUSALS,),
    ),
)
