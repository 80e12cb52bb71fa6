"""The law on requests that are sent at once: each is answered, and goes its path, as if it had been alone.

What a neighbour could leave in another's answer is marked: some requests are made to say one token that no other reply holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.checks.check import Check, Ledger
from harness.checks.compare import asked_of, starts_of, untouched
from harness.checks.evidence import Case, Evidence
from harness.checks.order import require_disturbance
from harness.oracle.spelling import spell
from harness.records.finding import Verdict

CHECK = "concurrent-neighbours"
TOGETHER, CANCELLED = "together", "cancelled"  # roles


def _judge_neighbours(evidence: Evidence, ledger: Ledger) -> None:
    for start_id, cases in starts_of(evidence, CHECK).items():
        solo = {asked_of(case): case for case in cases if TOGETHER not in case.request.roles}
        groups: dict[str, list[Case]] = {}
        for case in cases:
            if TOGETHER in case.request.roles:
                groups.setdefault(case.request.group, []).append(case)
        num_served = 0
        for group in groups.values():
            for case in group:
                ledger.examine(start_id)
                num_served += _judge_case(evidence, ledger, case, solo.get(asked_of(case)))
            if _can_mark(evidence, group[0]):
                _judge_markers(ledger, group, solo)
            _judge_response_ids(ledger, group)
        ledger.precondition(start_id, num_served > 1, "no two requests were sent at once and served", want="two", got=num_served)


def _judge_case(evidence: Evidence, ledger: Ledger, case: Case, alone: Case | None) -> bool:
    """Hold one answer against the same one alone. Returns whether it was served in both."""
    if CANCELLED in case.request.roles:
        require_disturbance(ledger, case)
        return False
    if case.request.expect != 200:
        if alone is None:
            ledger.blind(case.start.id, f"{case.request.id}: the same was not asked alone")
        elif ledger.compare(case, f"status of {alone.request.id}", alone.answer.status, case.answer.status):
            ledger.compare(case, f"body of {alone.request.id}", alone.answer.body, case.answer.body)
        return False
    if not untouched(evidence, ledger, case, alone) or alone is None:
        return False
    if alone.answer.reply is not None and case.answer.reply is not None:
        ledger.compare(case, f"logprobs of {alone.request.id}", alone.answer.reply.logprobs, case.answer.reply.logprobs)
    return True


def _can_mark(evidence: Evidence, case: Case) -> bool:
    """Whether the surface has the field that puts a marker into a reply."""
    return evidence.declared.capabilities.get(case.facts.drafter, {}).get("logit_bias") != "unsupported"


def _judge_markers(ledger: Ledger, group: Sequence[Case], solo: dict[str, Case]) -> None:
    """Hold that each marker is in its own reply, and in no other that does not say it alone."""
    markers = {case.request.id: marker for case in group for marker in _markers(case)}
    start_id = group[0].start.id
    ledger.precondition(start_id, len(set(markers.values())) > 1, "no two neighbours are marked", want="two markers", got=markers)
    for case in group:
        alone = solo.get(asked_of(case))
        said, own = _said(case), markers.get(case.request.id)
        if case.answer.reply is not None and own is not None and own not in said:
            ledger.fault(case, "its own marker is not in its reply", want=own, got=said)
        for owner, marker in markers.items():
            if owner != case.request.id and marker in said and (alone is None or marker not in _said(alone)):
                ledger.fault(case, f"the marker of {owner} is in its reply", want=f"no {marker}", got=said)


def _markers(case: Case) -> Iterator[str]:
    """Yield the text of the token that a request is made to say."""
    bias = (case.request.body or {}).get("logit_bias") or {}
    return (spell((int(token),)) for token, value in bias.items() if value > 0)


def _said(case: Case) -> str:
    """Return all text that came back, also of a stream that broke off."""
    answer = case.answer
    return (answer.reply.text if answer.reply else "") + "".join(chunk.text for chunk in answer.chunks)


def _judge_response_ids(ledger: Ledger, group: Sequence[Case]) -> None:
    counts = Counter(case.answer.reply.response_id for case in group if case.answer.reply is not None)
    doubled = sorted(response_id for response_id, count in counts.items() if count > 1 and response_id)
    if doubled:
        ledger.fault_of_start(group[0].start.id, "two answers have one id", want="an id for each", got=doubled)


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.MISMATCH,
        "Requests sent at once have the replies and paths that they have alone, and nothing of one is in another.",
        _judge_neighbours,
        reads_order=True,
    ),
)
