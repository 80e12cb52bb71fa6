"""The law on constrained replies: each satisfies its grammar, or begins a text that does where it was cut, and equals plain's.

It holds the text against the grammar by means of its own, on every arm: a fault that all arms share is none less.
"""

from __future__ import annotations

from harness.checks.check import Check, Ledger
from harness.checks.compare import asked_of, equal_to, served, starts_of
from harness.checks.evidence import Case, Evidence
from harness.oracle.constraints import FIELDS, Constraint, constraint_of
from harness.records.finding import Verdict
from harness.records.recording import Reply

CHECK = "grammar-valid"
CUT, WHOLE = "a reply cut by its budget", "a reply that ends by itself"


def _judge_grammar(evidence: Evidence, ledger: Ledger) -> None:
    for start_id, cases in starts_of(evidence, CHECK).items():
        free = {asked_of(case): case for case in cases if not _is_constrained(case)}
        shown: set[str] = set()
        for case in filter(_is_constrained, cases):
            ledger.examine(start_id)
            shown |= _judge_constrained(evidence, ledger, case)
            _require_effect(ledger, case, free.get(asked_of(case, *FIELDS)))
        for feature in (CUT, WHOLE):
            ledger.precondition(start_id, feature in shown, f"{feature} was not seen", want=feature, got=sorted(shown))


def _judge_constrained(evidence: Evidence, ledger: Ledger, case: Case) -> set[str]:
    """Hold one reply against its grammar and the plain arm's; return what it shows."""
    constraint, reply = constraint_of(case.request.body or {}), served(evidence, ledger, case)
    if constraint is None:
        ledger.blind(case.start.id, f"{case.request.id}: nobody knows its grammar")
        return set()
    if reply is None:
        return set()
    _hold(ledger, case, constraint, reply)
    if case.start.reference is not None:
        plain = evidence.reference(case)
        if plain is None:
            ledger.blind(case.start.id, f"{case.start.reference} is not asked {case.request.id}, so nothing is compared")
        else:
            equal_to(evidence, ledger, case, plain)
    return {WHOLE if _ends_by_itself(reply) else CUT}


def _hold(ledger: Ledger, case: Case, constraint: Constraint, reply: Reply) -> None:
    if _ends_by_itself(reply):
        if not constraint.is_whole(reply.text):
            ledger.fault(case, "the reply does not satisfy its grammar", want=dict(constraint.fields), got=reply.text)
    elif not constraint.may_become_whole(reply.text):
        longest = next(size for size in range(len(reply.text), -1, -1) if constraint.may_become_whole(reply.text[:size]))
        message = "the reply, cut short, begins no text that satisfies its grammar"
        ledger.fault(case, message, want=dict(constraint.fields), got=reply.text, first_difference=longest)


def _ends_by_itself(reply: Reply) -> bool:
    return reply.finish_reason == "stop" and not isinstance(reply.stop_reason, str)


def _require_effect(ledger: Ledger, case: Case, free: Case | None) -> None:
    """Write down BLIND unless the same request without its grammar breaks it: else a mask that is skipped would not show."""
    constraint = constraint_of(case.request.body or {})
    if free is None or free.answer.reply is None or constraint is None:
        ledger.precondition(case.start.id, False, f"{case.request.id}: the same was not answered without its grammar")
    elif constraint.may_become_whole(free.answer.reply.text):
        ledger.blind(
            case.start.id, f"{case.request.id}: the reply without its grammar satisfies it too", got=free.answer.reply.text
        )


def _is_constrained(case: Case) -> bool:
    return any((case.request.body or {}).get(name) is not None for name in FIELDS)


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.MISMATCH,
        "A constrained reply satisfies its grammar, or is a viable beginning where it was cut, and equals the plain arm's.",
        _judge_grammar,
    ),
)
