"""What a subject counts, held against what an independent walk of the same reply counts, and against itself.

It knows no single fault: constant counts, counts derived from others and one pass too many all break one of the three laws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.checks.check import Check, Ledger, first_difference
from harness.checks.compare import both_told, counts_of, speculates, starts_of, told
from harness.checks.evidence import Case, Evidence
from harness.checks.walks import predicted, walks
from harness.oracle.constraints import constraint_of
from harness.oracle.predict import DFLASH, predict
from harness.records.finding import Verdict
from harness.records.need import Need
from harness.records.recording import Answer, Counts, Round

PROPOSED, WIDTH_TIMES_ROUNDS, GRAMMAR_VALID = "proposed", "width-times-rounds", "grammar-valid"  # what `drafted` may count


def _judge_exact_counts(evidence: Evidence, ledger: Ledger) -> None:
    for walk in walks(evidence, ledger, "exact-counts", lambda _case, want: want.counts is not None):
        assert walk.want.counts is not None
        but = () if _counts_proposals(evidence, walk.case) else ("drafted",)
        _compare_fields(walk.case, "the oracle's counts", walk.want.counts, told(walk.case.answer) or walk.counts, ledger, but)
    _require_knowledge(evidence, "exact-counts", ledger)


def _counts_proposals(evidence: Evidence, case: Case) -> bool:
    """Whether the subject's count of drafts is the number of ids that were proposed for this request."""
    kind = evidence.declared.drafted
    return kind == PROPOSED or (kind == GRAMMAR_VALID and constraint_of(case.request.body or {}) is None)


def _judge_exact_drafts(evidence: Evidence, ledger: Ledger) -> None:
    for walk in walks(evidence, ledger, "exact-drafts", lambda _case, want: want.rounds is not None):
        want, got = walk.want.rounds, walk.case.answer.rounds
        assert want is not None
        if got is None:
            ledger.fault(walk.case, "the answer holds no list of its rounds", want=_plain_list(want), got=None)
            continue
        if walk.case.facts.device:
            want, got = _deciding(want), _deciding(got)
        if want != got:
            index = first_difference(want, got)
            ledger.fault(
                walk.case,
                f"round {index} differs from the oracle's (drafted ids, accepted)",
                want=_plain_list(want),
                got=_plain_list(got),
                first_difference=index,
            )
    for start_id, cases in starts_of(evidence, "exact-drafts").items():
        if cases[0].start.drafts_as is not None:
            _judge_alike(evidence, ledger, start_id, cases)
    _require_knowledge(evidence, "exact-drafts", ledger)


def _judge_alike(evidence: Evidence, ledger: Ledger, start_id: str, cases: Sequence[Case]) -> None:
    """Hold the rounds of a start against those of another, whose pack says the same in other words."""
    num_compared = 0
    for case in cases:
        name = case.start.drafts_as or ""
        other = evidence.case(name, case.request.id)
        if other is None:
            ledger.blind(start_id, f"{name} is not asked {case.request.id}, so no drafts are compared")
            continue
        want, got = other.answer.rounds, case.answer.rounds
        if want is None or got is None:  # found above, for want of a list
            continue
        num_compared += len(want)
        if got != want:
            index = first_difference(want, got)
            message = f"round {index} differs from that of {name}, whose pack says the same in other words"
            ledger.fault(case, message, want=_plain_list(want), got=_plain_list(got), first_difference=index)
    ledger.precondition(start_id, num_compared > 0, "no round was compared with another start's", want="one", got=0)


def _deciding(rounds: Sequence[Round]) -> tuple[Round, ...]:
    """Return the rounds cut to the slots that set the path, 1 .. accepted + 1: a device's rounding may change those behind."""
    return tuple(Round(one.drafted_ids[: one.num_accepted + 1], one.num_accepted) for one in rounds)


def _require_knowledge(evidence: Evidence, check: str, ledger: Ledger) -> None:
    """Write down BLIND where the check's own slice asks what no oracle can tell, and where a drafter need make no round."""
    wanted = predicted(evidence, check)
    if wanted is None:
        return
    num_rounds: Counter[str] = Counter()  # of each drafter
    for case, want in wanted:
        if want.unknown:
            ledger.blind(case.start.id, f"{case.request.id}: {want.unknown}")
        if speculates(case):
            num_rounds[case.facts.drafter] += len(want.rounds or ()) or bool(want.unknown)
    if not num_rounds:
        ledger.blind("", "no request of the plan must make a round: nothing was counted", want="rounds > 0", got=0)
    for drafter in sorted(name for name, count in num_rounds.items() if not count):
        ledger.blind("", f"no request of the plan must make a round of {drafter}: nothing was counted", want="rounds > 0", got=0)


def _judge_accounting(evidence: Evidence, ledger: Ledger) -> None:
    for case in evidence.all_cases:
        is_asked = "accounting" in case.request.checks
        may_break_off = case.request.leave_after_chunks is not None or case.request.expect != 200
        if is_asked and not may_break_off and ledger.reply(case) is None:
            continue
        counts = case.answer.counts
        if counts is None:
            if is_asked:
                ledger.fault(case, "no counts came with the answer", want="counts", got=None)
            continue
        ledger.examine(case.start.id)
        _compare_witnesses(case, counts, ledger)
        _compare_rounds(case, counts, ledger)
        _compare_sum(case, counts, evidence, ledger)


def _compare_witnesses(case: Case, counts: Counts, ledger: Ledger) -> None:
    """Hold the log line against `usage.spec`, and both against the reply that came with them."""
    if case.answer.usage_counts is not None:
        _compare_fields(case, "the log line's counts", counts, case.answer.usage_counts, ledger)
    reply = case.answer.reply
    if reply is None:
        return
    if reply.completion_tokens is not None:
        ledger.compare(case, "tokens beside usage.completion_tokens", reply.completion_tokens, counts.tokens)
    if reply.ids is not None:
        ledger.compare(case, "tokens beside the ids returned", len(reply.ids), counts.tokens)


def _compare_rounds(case: Case, counts: Counts, ledger: Ledger) -> None:
    """Hold the sums over the rounds against the totals."""
    rounds = case.answer.rounds
    if rounds is None:
        return
    ledger.compare(case, "rounds beside the length of per_round", len(rounds), counts.rounds)
    ledger.compare(case, "drafted beside the sum over per_round", sum(len(one.drafted_ids) for one in rounds), counts.drafted)
    ledger.compare(case, "accepted beside the sum over per_round", sum(one.num_accepted for one in rounds), counts.accepted)
    for index, one in enumerate(rounds):
        if not 0 <= one.num_accepted <= len(one.drafted_ids):
            want = f"0 .. {len(one.drafted_ids)}"
            ledger.fault(
                case, f"round {index} accepted more than it drafted", want=want, got=one.num_accepted, first_difference=index
            )


def _compare_sum(case: Case, counts: Counts, evidence: Evidence, ledger: Ledger) -> None:
    """tokens = rounds + plain + accepted + last; of a subject that tells no passes, what must hold whatever they were."""
    if counts.num_passes is None:
        _compare_bounds(case, told(case.answer) or counts, evidence, ledger)
        return
    run = counts.num_passes + counts.accepted
    for_last = _possible_last(case, counts, evidence)
    if counts.tokens - run not in for_last:
        parts = f"rounds={counts.rounds} plain={counts.plain} accepted={counts.accepted}"
        last = " or ".join(map(str, for_last))
        tokens = " or ".join(str(run + one) for one in for_last)
        ledger.fault(
            case,
            f"tokens is not rounds + plain + accepted + last ({parts} last={last})",
            want=f"tokens={tokens}",
            got=f"tokens={counts.tokens}",
        )


def _compare_bounds(case: Case, counts: Counts, evidence: Evidence, ledger: Ledger) -> None:
    """Each round drafts, and delivers its accepted drafts and one token of the base's own; the first token opens it or comes before."""
    if counts.accepted > counts.drafted:
        ledger.fault(case, "more accepted than drafted", want=f"at most {counts.drafted}", got=counts.accepted)
    if counts.rounds is None:
        return
    if counts.rounds > counts.drafted or (counts.drafted > 0 and counts.rounds == 0):
        ledger.fault(case, "rounds do not go with drafted", want=f"1 .. {counts.drafted}", got=counts.rounds)
    if evidence.declared.drafted == WIDTH_TIMES_ROUNDS and counts.rounds and counts.drafted % counts.rounds:
        ledger.fault(case, "drafted is not as many in each round", want=f"a multiple of {counts.rounds}", got=counts.drafted)
    reply = case.answer.reply
    is_whole = evidence.declared.trims_at_stop or (reply is not None and reply.finish_reason == "length")
    is_whole = is_whole and evidence.declared.caps_at_budget
    least = counts.rounds + (counts.accepted if is_whole else 0) + evidence.declared.first_token_outside
    chosen = counts.tokens + _ends_on_end_token(case.answer)
    if case.answer.status == 200 and chosen < least:
        parts = f"rounds={counts.rounds} accepted={counts.accepted}"
        ledger.fault(case, f"fewer tokens than its rounds delivered ({parts})", want=f"tokens >= {least}", got=chosen)


def _possible_last(case: Case, counts: Counts, evidence: Evidence) -> tuple[int, ...]:
    """Return what `last` must be: predicted, else traced through the reply's own rounds; both values only for a reply broken off.

    It is never solved for from the counts that it is to prove. Where the plain arm was not asked, the reply itself is walked;
    where no drafts are known for it, the rounds that it lists.
    """
    answer = case.answer
    if answer.status != 200 or answer.failure or case.request.leave_after_chunks is not None:
        return (0, 1)
    want = evidence.prediction(case) or predict(case.start, case.request, answer, evidence.declared, evidence.run.expectations)
    if want is not None and want.last is not None:
        return (want.last,)
    if case.facts.oracle == DFLASH and answer.rounds is not None:
        return (traced_last(answer.rounds, counts.tokens, ends_on_end_token=_ends_on_end_token(answer)),)
    return (0, 1)


def _ends_on_end_token(answer: Answer) -> bool:
    return answer.reply is not None and isinstance(answer.reply.stop_reason, int)


def traced_last(rounds: Sequence[Round], tokens: int, *, ends_on_end_token: bool) -> int:
    """Return 1 if the last counted token was not run through the model, by the rounds of a head that answers whenever asked.

    Its plain steps, if any, come after all its rounds. An end token is chosen after the last counted token was run. Else that
    token was run only as an accepted draft: where the rounds deliver all tokens, and the final one accepted some.
    """
    if ends_on_end_token or tokens == 0:
        return 0
    delivered_by_rounds = sum(one.num_accepted + 1 for one in rounds)
    return 0 if delivered_by_rounds == tokens and rounds[-1].num_accepted > 0 else 1


def _compare_fields(case: Case, whose: str, want: Counts, got: Counts, ledger: Ledger, but: Sequence[str] = ()) -> None:
    """Compare all fields, some left aside; one finding names those that differ and holds both values of each."""
    wanted, gotten = counts_of(want), counts_of(got)
    names = [name for name in both_told(want, got) if name not in but and wanted[name] != gotten[name]]
    if names:
        ledger.fault(
            case,
            f"{', '.join(names)}: not {whose}",
            want={name: wanted[name] for name in names},
            got={name: gotten[name] for name in names},
        )


def _plain_list(rounds: Sequence[Round]) -> list[list[object]]:
    return [[list(one.drafted_ids), one.num_accepted] for one in rounds]


CHECKS: tuple[Check, ...] = (
    Check(
        "exact-counts",
        Verdict.WRONG_PATH,
        "Rounds, drafted, accepted, plain, tokens, cached, fallback and reason equal the oracle's.",
        _judge_exact_counts,
        needs=(Need.COUNTS, Need.PREDICTIONS),
    ),
    Check(
        "exact-drafts",
        Verdict.WRONG_PATH,
        "The ids proposed and the number accepted in every round equal the oracle's.",
        _judge_exact_drafts,
        needs=(Need.ROUNDS, Need.PREDICTIONS),
    ),
    Check(
        "accounting",
        Verdict.WRONG_PATH,
        "tokens = rounds + plain + accepted + last on every line, and log line, response and rounds agree.",
        _judge_accounting,
        needs=(Need.COUNTS,),
    ),
)
