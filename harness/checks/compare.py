"""What equal means: replies field by field, paths count by count, and where in a block a reply ended. Knows no law."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harness.checks.check import Ledger
from harness.checks.evidence import Case, Evidence
from harness.records.recording import Answer, Counts, Reply, Round

REPLY_FIELDS = ("ids", "text", "finish_reason", "stop_reason", "prompt_tokens", "completion_tokens")


def pairs(evidence: Evidence, ledger: Ledger, check: str) -> Iterator[tuple[Case, Case]]:
    """Yield each case of a start that has a reference, with the reference's case, and count it as examined.

    A reference that does not ask the same is BLIND: nothing was compared there.
    """
    for case in evidence.cases(check):
        if case.start.reference is None:
            continue
        reference = evidence.reference(case)
        if reference is None:
            ledger.blind(case.start.id, f"{case.start.reference} is not asked {case.request.id}, so nothing is compared")
            continue
        ledger.examine(case.start.id)
        yield case, reference


def served(evidence: Evidence, ledger: Ledger, case: Case) -> Reply | None:
    """Return the reply of a request that must have been served, with ids where the subject has them; else a fault, and None."""
    reply = ledger.reply(case)
    if reply is not None and reply.ids is None and evidence.declared.returns_ids:
        ledger.fault(case, "no token ids came with the reply", want="ids", got=None)
        return None
    return reply


def equal_to(evidence: Evidence, ledger: Ledger, case: Case, reference: Case) -> bool:
    """Hold a case's reply against its reference's in all REPLY_FIELDS; both must have been served."""
    want, got = served(evidence, ledger, reference), served(evidence, ledger, case)
    return want is not None and got is not None and equal_replies(ledger, case, want, got)


def as_said(evidence: Evidence, want: Reply) -> Reply:
    """Return a reply that a rule gives as the subject would say it: without the fields that its answers do not have."""
    return msgspec.structs.replace(want, **dict.fromkeys(evidence.declared.silent))


def equal_replies(ledger: Ledger, case: Case, want: Reply, got: Reply, than: str = "") -> bool:
    """Compare two replies; the first field that differs is the fault, as the rest follows from it."""
    return all(ledger.compare(case, f"{name}{than}", getattr(want, name), getattr(got, name)) for name in REPLY_FIELDS)


def equal_paths(ledger: Ledger, case: Case, want: Answer, got: Answer, than: str = "") -> bool:
    """Compare what two answers say of their paths: counts by name, then round by round."""
    if want.counts is None or got.counts is None:
        return ledger.compare(case, f"counts{than}", want.counts, got.counts)
    return _equal_counts(ledger, case, want.counts, got.counts, than) and ledger.compare(
        case, f"rounds{than}", want.rounds, got.rounds
    )


def as_predicted(evidence: Evidence, ledger: Ledger, case: Case, *but: str) -> bool:
    """Hold a case's counts, some left aside, and its rounds against the oracle's; without a prediction it is BLIND."""
    want, got, than = evidence.prediction(case), case.answer, " that the rules give"
    if want is None or want.counts is None:
        why = f" ({want.unknown})" if want else ""
        ledger.precondition(case.start.id, False, f"{case.request.id}: nothing predicts its path{why}")
        return False
    if got.counts is None:
        return ledger.compare(case, f"counts{than}", want.counts, got.counts)
    is_equal = _equal_counts(ledger, case, want.counts, got.counts, than, but)
    if not (is_equal and evidence.declared.reports_rounds):
        return is_equal
    return ledger.compare(case, f"rounds{than}", want.rounds, got.rounds)


def _equal_counts(ledger: Ledger, case: Case, want: Counts, got: Counts, than: str, but: Sequence[str] = ()) -> bool:
    wanted, found = counts_of(want), counts_of(got)
    differing = [name for name in both_told(want, got) if name not in but and wanted[name] != found[name]]
    if differing:
        seen = ", ".join(differing)
        ledger.fault(
            case,
            f"{seen} of the path{than} differ" if len(differing) > 1 else f"{seen} of the path{than} differs",
            want={name: wanted[name] for name in differing},
            got={name: found[name] for name in differing},
        )
    return not differing


def untouched(evidence: Evidence, ledger: Ledger, case: Case, before: Case | None) -> bool:
    """Hold a probe's reply and path against the same probe's on the same arm, `before` a disturbance.

    Returns whether they were compared; without one before there is nothing to compare with, and that is BLIND.
    """
    if before is None:
        ledger.blind(case.start.id, f"{case.request.id}: the same was not asked undisturbed, so nothing is compared")
        return False
    want, got = served(evidence, ledger, before), served(evidence, ledger, case)
    if want is None or got is None:
        return False
    than = f" of {before.request.id}"
    if not equal_replies(ledger, case, want, got, than):
        return True
    if case.facts.prefix_cache:  # it resumes from whatever came before: its path is that of the rules, and `cached` another law's
        if tells_what_is_left(evidence):
            as_predicted(evidence, ledger, case, "cached")
    elif not case.facts.remembers:
        equal_paths(ledger, case, before.answer, case.answer, than)
    return True


def tells_what_is_left(evidence: Evidence) -> bool:
    """Whether a subject tells what each request leaves in a prefix cache: its ids, and what was run of it. Else only replies are held."""
    return evidence.declared.reports_counts and evidence.declared.returns_ids


def counts_of(counts: Counts) -> dict[str, Any]:
    """Return counts by name."""
    return {name: getattr(counts, name) for name in Counts.__struct_fields__}


def both_told(want: Counts, got: Counts) -> tuple[str, ...]:
    """Return the names of the counts that both witnesses tell; that of the fallback is told by whoever tells its rounds."""
    wanted, found = counts_of(want), counts_of(got)
    tells_fallback = want.num_passes is not None and got.num_passes is not None
    return tuple(
        name
        for name in wanted
        if (tells_fallback if name == "fallback" else wanted[name] is not None and found[name] is not None)
    )


def told(answer: Answer) -> Counts | None:
    """Return what both witnesses of an answer tell together: the first one's counts, and the second one's where it is silent."""
    first, second = answer.counts, answer.usage_counts
    if first is None or second is None:
        return first or second
    silent = {name: getattr(second, name) for name, value in counts_of(first).items() if value is None}
    return msgspec.structs.replace(first, **silent)


def asked_of(case: Case, *but: str) -> str:
    """Return what a request asks as a key, some fields of its body left aside."""
    body = {name: value for name, value in (case.request.body or {}).items() if name not in but}
    return json.dumps(body, sort_keys=True)


def num_not_run(counts: Counts) -> int | None:
    """Return the tokens that no pass ran: 1 if the last counted token was not run, else 0; None where passes are not told."""
    return None if counts.num_passes is None else counts.tokens - counts.num_passes - counts.accepted


def ends_on_accepted_draft(answer: Answer) -> bool:
    """Whether the last counted token of a reply that no end token ended is an accepted draft: one that was run with its round."""
    counts = answer.counts
    return counts is not None and counts.accepted > 0 and num_not_run(counts) == 0


def landed_at_end(evidence: Evidence, case: Case) -> bool | None:
    """Whether a reply ended on an accepted draft, by its counts or else by what is predicted; None where neither tells."""
    counts = case.answer.counts
    if counts is not None and num_not_run(counts) is not None:
        return ends_on_accepted_draft(case.answer)
    want = evidence.prediction(case)
    if want is None or want.last is None or want.rounds is None:
        return None
    return want.last == 0 and bool(want.rounds) and want.rounds[-1].num_accepted > 0


def is_told(evidence: Evidence, landed: Sequence[bool | None]) -> bool:
    """Whether it is known of any reply where it ended; a subject that names its paths always tells."""
    return evidence.declared.reports_path or any(one is not None for one in landed)


def knows_rounds(evidence: Evidence, cases: Sequence[Case]) -> bool:
    """Whether the rounds of any of these are known: told, or predicted."""
    if evidence.declared.reports_rounds:
        return True
    return any(want.rounds is not None for case in cases if (want := evidence.prediction(case)) is not None)


def rounds_of(evidence: Evidence, case: Case) -> tuple[Round, ...]:
    """Return the rounds of a case: its own, or the predicted ones of a subject that reports none."""
    if evidence.declared.reports_rounds:
        return case.answer.rounds or ()
    prediction = evidence.prediction(case)
    return (prediction.rounds if prediction else None) or ()


def speculates(case: Case) -> bool:
    """Whether a case's arm is one that drafts."""
    return case.facts.drafter != "none" and case.facts.expect == "engaged"


def starts_of(evidence: Evidence, check: str) -> dict[str, list[Case]]:
    """Return the cases of a check by start, in the plan's order."""
    by_start: dict[str, list[Case]] = {}
    for case in evidence.cases(check):
        by_start.setdefault(case.start.id, []).append(case)
    return by_start
