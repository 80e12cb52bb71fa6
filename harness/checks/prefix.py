"""The law on the prefix cache: a request resumes from exactly what the rule gives it, and is answered as if it had not.

What must be resumed follows from the prompts and from what was run before; the subject's own word is held against it.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checks.check import Check, Ledger
from harness.checks.compare import as_predicted, equal_replies, served, starts_of, tells_what_is_left
from harness.checks.evidence import Case, Evidence
from harness.checks.order import require_disturbance
from harness.records.finding import Verdict

CHECK = "prefix-cache"
DISTURBING = frozenset({"failed", "cancelled", "refused"})  # roles of requests that are there for what they leave
WHOLE = "all but the last token of its prompt"
PART = "a part of its prompt"
NONE = "nothing, though a request came before"
_OF_PLAIN = " of the uncached run"


def _judge_prefix_cache(evidence: Evidence, ledger: Ledger) -> None:
    for start_id, cases in starts_of(evidence, CHECK).items():
        if not cases[0].facts.prefix_cache:
            continue
        shown: set[str] = set()
        for case in cases:
            if DISTURBING & set(case.request.roles):
                require_disturbance(ledger, case)
            else:
                ledger.examine(start_id)
                _judge_resumed(evidence, ledger, case)
                shown |= set(_shows(evidence, case))
        for feature in (WHOLE, PART, NONE) if evidence.declared.returns_ids else ():  # what was left is known by its ids
            ledger.precondition(start_id, feature in shown, f"no request resumes from {feature}", want=feature, got=sorted(shown))


def _judge_resumed(evidence: Evidence, ledger: Ledger, case: Case) -> None:
    """Hold one request: the uncached reply, the positions resumed from, and the path that follows from them."""
    plain, resumed = evidence.alike(case), evidence.resumed(case)
    if plain is None:
        ledger.blind(case.start.id, f"{case.request.id}: the same was not asked of {case.start.reference}")
        return
    want, got = served(evidence, ledger, plain), served(evidence, ledger, case)
    if want is None or got is None:
        return
    is_equal = equal_replies(ledger, case, want, got, _OF_PLAIN)
    if not (is_equal and ledger.compare(case, f"logprobs{_OF_PLAIN}", want.logprobs, got.logprobs)):
        return
    if resumed is None:
        message = f"{case.request.id}: nobody knows what the request before it left"
        ledger.precondition(case.start.id, not tells_what_is_left(evidence), message)
        return
    if ledger.compare(case, "cached_tokens of the usage", resumed, got.cached_tokens) and evidence.declared.reports_counts:
        as_predicted(evidence, ledger, case)


def _shows(evidence: Evidence, case: Case) -> Iterator[str]:
    """Yield the side of the rule that a request is on."""
    resumed, others = evidence.resumed(case), len(case.request.prompt_ids) - 1
    if resumed is None:
        return
    if resumed and resumed == others:
        yield WHOLE
    elif resumed:
        yield PART
    elif others and case.start.requests[0] != case.request:
        yield NONE


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.MISMATCH,
        "A request resumes from exactly the tokens that its prompt shares with what was run before, and is answered as uncached.",
        _judge_prefix_cache,
        reads_order=True,
    ),
)
