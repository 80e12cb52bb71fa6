"""The laws on one request after another: what came before changes neither a reply nor its path, and who leaves frees the engine.

A path is compared with the same arm's own, alone: not with plain's.
"""

from __future__ import annotations

from harness.checks.check import Check, Ledger
from harness.checks.compare import asked_of, num_not_run, speculates, starts_of, untouched
from harness.checks.evidence import Case, Evidence
from harness.records.finding import Verdict
from harness.records.plan import Start

ALONE, PROBE, CANCELLED = "alone", "probe", "cancelled"
LEFT = "left"  # the failure of an answer whose client left, as it was to
BY_HAND = "fail_pass"  # a parameter that sets no path


def _judge_request_order(evidence: Evidence, ledger: Ledger) -> None:
    check = "request-order"
    alone = {_path_of(case): case for case in evidence.cases(check, ALONE)}
    references = {start.reference for start in evidence.run.plan.starts}
    for start_id, cases in starts_of(evidence, check).items():
        if start_id in references:  # asked so that the paths of others can be predicted
            continue
        num_compared = 0
        for case in cases:
            if PROBE in case.request.roles:
                ledger.examine(start_id)
                num_compared += untouched(evidence, ledger, case, alone.get(_path_of(case)))
            elif ALONE in case.request.roles:
                _require_first(ledger, case)
            else:
                require_disturbance(ledger, case)
        ledger.precondition(start_id, num_compared > 0, "no probe was compared with the same one alone")


def _require_first(ledger: Ledger, case: Case) -> None:
    """Write down BLIND unless nothing but other probes alone came before this one on its start."""
    requests = case.start.requests
    before = [request.id for request in requests[: requests.index(case.request)] if ALONE not in request.roles]
    ledger.precondition(case.start.id, not before, f"{case.request.id} is not the first request", want=[], got=before)


def require_disturbance(ledger: Ledger, case: Case) -> None:
    """Write down BLIND unless what was to disturb did happen; an unanswered request is a fault."""
    answer, request = case.answer, case.request
    if CANCELLED in request.roles:
        _has_left(ledger, case)
    elif answer.status is None:
        ledger.fault(case, "unanswered", want=f"status {request.expect}", got=answer.failure)
    else:
        happened = answer.status == request.expect
        message = f"{request.id}: the disturbance {request.role!r} did not happen"
        ledger.precondition(case.start.id, happened, message, want=request.expect, got=answer.status)


def _has_left(ledger: Ledger, case: Case) -> bool:
    """Return whether the client left in the middle of its reply, as it was to; anything else is written down."""
    failure = case.answer.failure
    if failure and failure != LEFT:
        ledger.fault(case, "unanswered", want="a stream to leave", got=failure)
    message = f"{case.request.id}: the reply was over before its client left"
    ledger.precondition(case.start.id, failure == LEFT, message, want=LEFT, got=f"status {case.answer.status}")
    return failure == LEFT


def _judge_cancel_frees(evidence: Evidence, ledger: Ledger) -> None:
    check = "cancel-frees"
    for start_id, cases in starts_of(evidence, check).items():
        undisturbed = {asked_of(case): case for case in cases if not {PROBE, CANCELLED} & set(case.request.roles)}
        num_cancelled = num_compared = 0
        for case in cases:
            if CANCELLED in case.request.roles:
                ledger.examine(start_id)
                num_cancelled += _judge_cancelled(evidence, ledger, case)
            elif PROBE in case.request.roles:
                ledger.examine(start_id)
                num_compared += untouched(evidence, ledger, case, undisturbed.get(asked_of(case)))
        ledger.precondition(start_id, num_cancelled > 0, "no client left")
        ledger.precondition(start_id, num_compared > 0, "no request came after a client that left")


def _judge_cancelled(evidence: Evidence, ledger: Ledger, case: Case) -> bool:
    """Hold the counts of a request whose client left. Returns whether the client did leave."""
    if not _has_left(ledger, case):
        return False
    counts, budget = case.answer.counts, case.request.max_tokens
    if counts is None:  # where answers alone carry counts, there can be none
        if evidence.declared.reports_path:
            ledger.fault(case, "no counts came for a request whose client left", want="reason=cancelled", got=None)
        return True
    of_it = " of a request whose client left"
    ledger.compare(case, f"reason{of_it}", "cancelled", counts.reason)
    ledger.compare(case, f"path{of_it}", "spec" if speculates(case) else "plain", counts.path)
    if counts.tokens >= budget:
        ledger.fault(case, f"tokens{of_it} go on to the budget", want=f"fewer than {budget}", got=counts.tokens)
    if num_not_run(counts) not in {0, 1}:
        ledger.fault(case, f"counts{of_it} do not add up: tokens not run", want="0 or 1", got=num_not_run(counts))
    return True


def _path_of(case: Case) -> tuple[str, str]:
    """Return what sets a request's path: what is asked, and how its start was launched, but for a fault put in by hand."""
    return asked_of(case), _launch_of(case.start)


def _launch_of(start: Start) -> str:
    parameters = {name: value for name, value in start.parameters.items() if name != BY_HAND}
    return f"{start.arm} {start.model} {start.pack} {sorted(parameters.items())}"


CHECKS: tuple[Check, ...] = (
    Check(
        "request-order",
        Verdict.MISMATCH,
        "A request's reply and path are the same alone on a fresh server and after any other request.",
        _judge_request_order,
        reads_order=True,
    ),
    Check(
        "cancel-frees",
        Verdict.MISMATCH,
        "A client that leaves ends its request at once, and the next request is untouched.",
        _judge_cancel_frees,
        reads_order=True,
    ),
)
