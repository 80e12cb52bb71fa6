"""The law on accept lengths: whatever a plan promises of them does occur, so that no length goes untested without a word.

What is promised is read from the predictions, what occurred from the subject's own list of rounds. It judges no single round.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.checks.check import Check, Ledger
from harness.checks.compare import ends_on_accepted_draft, speculates, starts_of
from harness.checks.evidence import Case, Evidence
from harness.oracle.predict import DFLASH, Prediction, pack_rules, rules_of
from harness.oracle.shapes import Edge, required, shapes
from harness.records.finding import Verdict
from harness.records.need import Need
from harness.records.recording import Reply, Round

CHECK = "accept-lengths"


def _judge_accept_lengths(evidence: Evidence, ledger: Ledger) -> None:
    for start_id, cases in starts_of(evidence, CHECK).items():
        if speculates(cases[0]):
            _judge_start(evidence, ledger, start_id, cases)


def _judge_start(evidence: Evidence, ledger: Ledger, start_id: str, cases: Sequence[Case]) -> None:
    """Hold all that a start's requests show together against what is promised of them, and that against what must be promised."""
    k = _most_drafts(evidence, cases[0])
    promised: set[str] = set()
    seen: set[str] = set()
    for case in cases:
        if ledger.reply(case) is None:
            continue
        ledger.examine(start_id)
        want = evidence.prediction(case)
        if want is None or want.rounds is None or k is None:
            why = want.unknown if want is not None else "the plain arm did not serve it to its end"
            ledger.blind(start_id, f"{case.request.id}: nothing predicts its rounds ({why})")
            continue
        promised |= shapes(want.rounds, k, _promised_edge(evidence, case, want))
        rounds = case.answer.rounds or ()
        seen |= shapes(rounds, k, _edge(case.answer.reply, lands=_lands(rounds) and ends_on_accepted_draft(case.answer)))
    unpromised = [] if k is None else [shape for shape in required(k) if shape not in promised]
    if unpromised and not ledger.found_at(start_id):
        ledger.blind(start_id, "the plan does not promise all that must occur", want=unpromised, got=sorted(promised))
    absent = sorted(promised - seen)
    if absent:
        message = f"{len(absent)} of {len(promised)} things that the plan promises of its rounds did not occur"
        ledger.blind(start_id, message, want=absent, got=sorted(seen))


def _most_drafts(evidence: Evidence, case: Case) -> int | None:
    """Return the most drafts of a round on a case's start; None for a pack whose blocks are not known."""
    start, declared, expectations = case.start, evidence.declared, evidence.run.expectations
    if case.facts.oracle != DFLASH:
        rules = rules_of(start, declared, int(start.parameters["k"]))
    elif expectations is not None and start.pack in expectations.block_sizes:
        rules = pack_rules(start, declared, expectations.block_sizes[start.pack])
    else:
        return None
    return min(rules.k, rules.width - 1)


def _promised_edge(evidence: Evidence, case: Case, want: Prediction) -> Edge:
    plain = evidence.alike(case)
    lands = want.last == 0 and _lands(want.rounds or ())
    return _edge(plain.answer.reply if plain is not None else None, lands=lands)


def _lands(rounds: Sequence[Round]) -> bool:
    """Whether the last round accepted anything."""
    return bool(rounds) and rounds[-1].num_accepted > 0


def _edge(reply: Reply | None, *, lands: bool) -> Edge:
    """Return what the last token of a reply ended, if that was an accepted draft."""
    if reply is None or not lands:
        return Edge.NONE
    if isinstance(reply.stop_reason, str):
        return Edge.STOP
    return Edge.BUDGET if reply.finish_reason == "length" else Edge.NONE


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.BLIND,
        "Every accept length and every turn from one to the next that the plan promises occurs in the subject's own rounds.",
        _judge_accept_lengths,
        needs=(Need.LENGTHS, Need.PREDICTIONS),
    ),
)
