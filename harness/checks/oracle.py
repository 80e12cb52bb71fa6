"""The law that holds the plain arm against a forward of its own: a fault that all arms share cannot hide.

It reads replies that the oracle computed from the container's files, not from any answer. It knows nothing of drafts.
"""

from __future__ import annotations

from harness.checks.check import Check, Ledger
from harness.checks.compare import served, starts_of
from harness.checks.evidence import Case, Evidence
from harness.oracle.packs import FLOAT32_MARGIN
from harness.oracle.reply import ExpectedReply, expected_reply
from harness.records.finding import Verdict

CHECK = "oracle-reply"
TIE = "tie"  # role of a request whose reply holds a tie of two ids with bit-equal scores


def _judge_oracle_reply(evidence: Evidence, ledger: Ledger) -> None:
    for start_id, cases in starts_of(evidence, CHECK).items():
        known = [(case, want) for case in cases if (want := _expected(evidence, ledger, case)) is not None]
        for case, want in known:
            ledger.examine(start_id)
            _compare(evidence, ledger, case, want)
        _require_sight(ledger, start_id, known)


def _expected(evidence: Evidence, ledger: Ledger, case: Case) -> ExpectedReply | None:
    """Return what the reply must be; where that cannot be told for certain, write down BLIND."""
    expectations, request, start = evidence.run.expectations, case.request, case.start
    saying = expectations.saying(start.model, request.prompt_ids) if expectations else None
    want = expected_reply(request, saying, expectations.models[start.model]) if expectations and saying else None
    if want is None:
        ledger.blind(start.id, f"{request.id}: no forward was computed for it to its end", want="expectations", got=None)
    elif not want.is_certain:
        lead = min(choice.margin for choice in want.choices)
        ledger.blind(start.id, f"{request.id}: a choice leads by too little to be certain", want=FLOAT32_MARGIN, got=lead)
        return None
    return want


def _compare(evidence: Evidence, ledger: Ledger, case: Case, want: ExpectedReply) -> None:
    got = served(evidence, ledger, case)
    if got is None:
        return
    unsaid = (*evidence.declared.silent, *(("ids",) if got.ids is None else ()))
    for name in ("ids", "text", "finish_reason", "stop_reason"):
        if name in unsaid:
            continue
        if not ledger.compare(case, f"{name} of the oracle's own forward", getattr(want, name), getattr(got, name)):
            return  # the rest follows from it


def _require_sight(ledger: Ledger, start_id: str, known: list[tuple[Case, ExpectedReply]]) -> None:
    """Write down BLIND unless an id that may not be chosen would win everywhere, and unless a tie that is asked for is one."""
    if not known:
        return
    choices = [choice for _, want in known for choice in want.choices]
    behind = sum(choice.is_behind_padding for choice in choices)
    message = "a padded row of the vocabulary does not win at every choice, so the bound is not tested"
    ledger.precondition(start_id, behind == len(choices), message, want=len(choices), got=behind)
    tied = [want for case, want in known if TIE in case.request.roles]
    if tied:
        num_ties = sum(choice.is_tie for want in tied for choice in want.choices)
        ledger.precondition(start_id, num_ties > 0, "no choice of a reply with role tie is a tie", want="one", got=num_ties)


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.MISMATCH,
        "The plain arm's ids, text and finish equal an independent float64 forward of the same container.",
        _judge_oracle_reply,
    ),
)
