"""The laws on whole replies: equal to plain's whatever drafts, and for every budget the prefix that it must be.

They know nothing of paths, but for what must have happened so that a law could be broken.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.checks.check import Check, Ledger
from harness.checks.compare import (
    asked_of,
    equal_replies,
    equal_to,
    is_told,
    knows_rounds,
    landed_at_end,
    pairs,
    rounds_of,
    served,
    speculates,
    starts_of,
)
from harness.checks.evidence import Case, Evidence
from harness.records.finding import Verdict
from harness.records.recording import Reply


def _judge_same_reply(evidence: Evidence, ledger: Ledger) -> None:
    for case, reference in pairs(evidence, ledger, "same-reply"):
        equal_to(evidence, ledger, case, reference)
    for case in evidence.cases("same-reply"):
        if case.start.host is not None and case.request.is_greedy:
            _judge_host_ids(evidence, ledger, case)


def _judge_host_ids(evidence: Evidence, ledger: Ledger, case: Case) -> None:
    """Hold a device's greedy ids against the host's plain arm's: rounding moves no certified choice."""
    host = evidence.on_host(case)
    if host is None:
        ledger.blind(case.start.id, f"{case.start.host} is not asked {case.request.id}, so nothing is compared")
        return
    ledger.examine(case.start.id)
    want, got = served(evidence, ledger, host), served(evidence, ledger, case)
    if want is not None and got is not None:
        ledger.compare(case, "ids of the plain arm on the host", _said(want), _said(got))


def _judge_same_sampled_reply(evidence: Evidence, ledger: Ledger) -> None:
    check = "same-sampled-reply"
    for case, reference in pairs(evidence, ledger, check):
        if not case.request.is_greedy:
            equal_to(evidence, ledger, case, reference)
    for start_id, cases in starts_of(evidence, check).items():
        shown: set[str] = set()
        for group in _groups(cases, "seed", "temperature"):
            for case in group if group[0].start.reference is None else ():  # the others are examined as pairs
                ledger.examine(case.start.id)
            shown |= _judge_seeds(evidence, ledger, group)
        for feature in ("the same seed twice", "another seed", "greedy beside sampled"):
            ledger.precondition(start_id, feature in shown, f"nothing was asked with {feature}", want=feature, got=sorted(shown))


def _judge_seeds(evidence: Evidence, ledger: Ledger, group: Sequence[Case]) -> set[str]:
    """Judge the answers to one prompt and budget; return what was there to be compared."""
    sampled = [(case, reply) for case in group if not case.request.is_greedy and (reply := served(evidence, ledger, case))]
    greedy = [reply for case in group if case.request.is_greedy and (reply := served(evidence, ledger, case))]
    first_of_seed: dict[str, Reply] = {}
    shown = {"greedy beside sampled"} if greedy and sampled else set()
    for case, reply in sampled:
        asked = asked_of(case)
        if asked in first_of_seed:
            equal_replies(ledger, case, first_of_seed[asked], reply, than=" of the same seed asked before")
            shown.add("the same seed twice")
            continue
        if any(_said(reply) == _said(other) for other in first_of_seed.values()):
            ledger.fault(case, "another seed gave the same reply", want="another reply", got=_said(reply))
        if first_of_seed:
            shown.add("another seed")
        first_of_seed[asked] = reply
        if any(_said(reply) == _said(other) for other in greedy):
            ledger.blind(
                case.start.id, f"{case.request.id}: the sampled reply is the greedy one; the model is too sharp for this law"
            )
    return shown


def _judge_budget_prefix(evidence: Evidence, ledger: Ledger) -> None:
    for start_id, cases in starts_of(evidence, "budget-prefix").items():
        for group in _groups(cases, "max_tokens"):
            _judge_prefixes(evidence, ledger, group)
        landed = [landed_at_end(evidence, case) for case in cases if _finish(case) == "length"]
        if speculates(cases[0]) and is_told(evidence, landed) and not evidence.declared.reserves_token:
            ledger.precondition(start_id, any(landed), "no budget was spent inside an accepted block", want="one", got=0)


def _judge_prefixes(evidence: Evidence, ledger: Ledger, group: Sequence[Case]) -> None:
    """Hold each reply to one prompt against the one of the largest budget."""
    longest = max(group, key=lambda case: case.request.max_tokens)
    whole = served(evidence, ledger, longest)
    shorter = [case for case in group if case.request.max_tokens < longest.request.max_tokens]
    ledger.precondition(longest.start.id, bool(shorter), f"{longest.request.id}: asked at one budget only")
    for case in group:
        ledger.examine(case.start.id)
        got = served(evidence, ledger, case)
        if whole is not None and got is not None:
            _judge_prefix(evidence, ledger, case, whole, got)


def _judge_prefix(evidence: Evidence, ledger: Ledger, case: Case, whole: Reply, got: Reply) -> None:
    budget = case.request.max_tokens
    tokens = _said(whole)
    if whole.finish_reason == "stop" and budget > len(tokens):  # it ends by itself before the budget does
        equal_replies(ledger, case, whole, got, than=" of the reply that ends by itself")
        return
    is_right = ledger.compare(case, "the reply of the longest budget, cut", tokens[:budget], _said(got))
    if is_right and len(whole.text) == len(tokens):
        is_right = ledger.compare(case, "text", whole.text[:budget], got.text)
    for name, want in (("finish_reason", "length"), ("stop_reason", None), ("completion_tokens", budget)):
        if name not in evidence.declared.silent:
            is_right = is_right and ledger.compare(case, name, want, getattr(got, name))


def _judge_drafter_independence(evidence: Evidence, ledger: Ledger) -> None:
    widest: dict[str, int] = {}
    for case, reference in pairs(evidence, ledger, "drafter-independence"):
        equal_to(evidence, ledger, case, reference)
        drafted = max((len(one.drafted_ids) for one in rounds_of(evidence, case)), default=0)
        widest[case.start.id] = max(drafted, widest.get(case.start.id, 0))
    for start_id, cases in starts_of(evidence, "drafter-independence").items():
        if start_id in widest and speculates(cases[0]) and knows_rounds(evidence, cases):
            _require_width(evidence, ledger, cases[0], widest[start_id])


def _require_width(evidence: Evidence, ledger: Ledger, case: Case, widest: int) -> None:
    """Write down BLIND unless the drafter did what its start is for: a round of all its K drafts, or any at all."""
    parameters = case.start.parameters
    k = parameters.get("k", parameters.get("draft_k"))
    may_stop_drafting = "fallback_below" in parameters
    want = 1 if k is None or may_stop_drafting else min(int(k), evidence.declared.width_of(case.start.arm) - 1)
    ledger.precondition(case.start.id, widest >= want, f"no round drafted {want} ids or more", want=want, got=widest)


def _groups(cases: Sequence[Case], *but: str) -> list[list[Case]]:
    """Return cases that ask the same but for some fields, together."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(asked_of(case, *but), []).append(case)
    return list(groups.values())


def _finish(case: Case) -> str | None:
    return case.answer.reply.finish_reason if case.answer.reply else None


def _said(reply: Reply) -> Sequence[int] | str:
    """Return a reply's ids, or its text where the surface returns no ids."""
    return reply.text if reply.ids is None else reply.ids


CHECKS: tuple[Check, ...] = (
    Check(
        "same-reply",
        Verdict.MISMATCH,
        "Each greedy request has the plain arm's ids, text, finish and stop reason, and usage; on a device also the host's ids.",
        _judge_same_reply,
    ),
    Check(
        "same-sampled-reply",
        Verdict.MISMATCH,
        "A seeded sampled reply is the plain arm's, the same for the same seed at any time, and another for another seed.",
        _judge_same_sampled_reply,
    ),
    Check(
        "budget-prefix",
        Verdict.MISMATCH,
        "For every budget the reply is exactly that many tokens of the longest one, and ends where that one ends by itself.",
        _judge_budget_prefix,
    ),
    Check(
        "drafter-independence",
        Verdict.MISMATCH,
        "The reply does not depend on what drafts: not on the drafter, its K, its pack or its fallback bar.",
        _judge_drafter_independence,
    ),
)
