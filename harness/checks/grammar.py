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
        constrained = [case for case in cases if _is_constrained(case)]
        shown: set[str] = set()
        for case in constrained:
            ledger.examine(start_id)
            shown |= _judge_constrained(evidence, ledger, case)
        _require_effects(ledger, constrained, {asked_of(case): case for case in cases if not _is_constrained(case)})
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


def _require_effects(ledger: Ledger, constrained: list[Case], free: dict[str, Case]) -> None:
    """Write down BLIND for a grammar that no reply breaks when it is asked without: a mask that is skipped would not show."""
    bites: dict[str, bool] = {}
    for case in constrained:
        constraint, without = constraint_of(case.request.body or {}), free.get(asked_of(case, *FIELDS))
        if constraint is not None:
            said = without.answer.reply if without is not None else None
            bites[constraint.name] = bites.get(constraint.name, False) or (
                said is not None and not constraint.may_become_whole(said.text)
            )
    for name, does_bite in bites.items():
        message = f"no reply to a request without its grammar breaks the grammar {name!r}"
        ledger.precondition(constrained[0].start.id, does_bite, message)


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
