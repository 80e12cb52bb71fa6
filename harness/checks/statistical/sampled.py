"""The law on sampling with drafts: what an arm that drafts samples has the plain arm's distribution.

For subjects whose sampled replies need not be equal to the plain arm's token by token. Its own controls are judged with it: plain against
plain must pass, and a plain sample in which the commonest token is taken unseen now and then must not. It knows no engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from harness.checks.check import Check, Ledger
from harness.checks.compare import served, speculates, starts_of
from harness.checks.evidence import Case, Evidence
from harness.checks.statistical.two_sample import Comparison, Samples, Tokens, compare
from harness.records.finding import Verdict
from harness.records.need import Need
from harness.records.recording import Reply

CHECK = "sampled-distribution"
FIRST_HALF, SECOND_HALF, DRAFTED = "first-half", "second-half", "drafted"  # roles of requests, as plans spell them
FALSE_ALARMS = 1e-3  # of a run: the chance that a right subject is found wrong, over the choice of seeds
DEALS_PER_ALARM = 2  # how many deals as extreme as an alarm are expected: more of them make the smallest p-value finer
BIAS = 1 / 2  # of the fake: the share of tokens for which the commonest one is taken unseen, as an unread accept rule would
BIAS_SEED = 1

Strata = dict[str, list[Tokens]]  # replies by prompt


def _judge_sampled_distribution(evidence: Evidence, ledger: Ledger) -> None:
    drafting = {start: cases for start, cases in starts_of(evidence, CHECK).items() if speculates(cases[0])}
    by_plain: dict[str, list[str]] = {}
    for start_id, cases in drafting.items():
        by_plain.setdefault(cases[0].start.reference or "", []).append(start_id)
    for plain_id, start_ids in by_plain.items():
        halves = [_samples(evidence, ledger, evidence.cases(CHECK, role), plain_id) for role in (FIRST_HALF, SECOND_HALF)]
        if any(half is None for half in halves):
            continue  # what was not served is a finding already
        first, second = (half or {} for half in halves)
        level = FALSE_ALARMS / (len(start_ids) + 1)
        if not _controls_hold(ledger, plain_id, first, second, level):
            continue
        for start_id in start_ids:
            _judge_arm(evidence, ledger, drafting[start_id], _joined(first, second), level)


def _controls_hold(ledger: Ledger, plain_id: str, first: Strata, second: Strata, level: float) -> bool:
    """Whether plain passes against itself and a biased fake of it does not; BLIND where one of them is not so."""
    num_deals = _num_deals(level)
    try:
        null = compare(_sides(first, second), num_deals)
        fake = compare(_sides(first, _biased(second)), num_deals)
    except ValueError as error:
        ledger.blind(plain_id, f"nothing can be told of its samples: {error}")
        return False
    if null.p_value <= level:
        message = f"plain differs from plain (p={null.p_value:.2g} at {null.place}): its samples are no draws of one distribution"
        ledger.blind(plain_id, message, want=f"p above {level:.2g}", got=null.p_value)
        return False
    if fake.p_value > level:
        message = (
            f"a fake that takes the commonest token unseen for {BIAS:.0%} of its tokens is not caught: sample more, or flatter"
        )
        ledger.blind(plain_id, message, want=f"p of at most {level:.2g}", got=fake.p_value)
        return False
    ledger.note(
        f"at most {FALSE_ALARMS:g} false alarms a run: each comparison at {level:.2g}, by {num_deals} deals; {plain_id} gave "
        f"{_size(first)} + {_size(second)} replies to {len(first)} prompts, against itself p={null.p_value:.2g}; a fake that takes "
        f"the commonest token unseen for {BIAS:.0%} of its tokens is caught with p={fake.p_value:.2g}"
    )
    return True


def _judge_arm(evidence: Evidence, ledger: Ledger, cases: Sequence[Case], want: Strata, level: float) -> None:
    start_id = cases[0].start.id
    got = _samples(evidence, ledger, cases, start_id)
    if got is None or not _drafts_decide(ledger, start_id, cases):
        return
    if got.keys() != want.keys():
        ledger.blind(start_id, "it was not asked the prompts of the plain arm", want=sorted(want), got=sorted(got))
        return
    found = compare(_sides(want, got), _num_deals(level))
    ledger.note(f"{start_id} gave {_size(got)} replies, p={found.p_value:.2g}")
    if found.p_value <= level:
        message = (
            f"its samples are not of the plain arm's distribution (p={found.p_value:.2g}): they differ most at {found.place}"
        )
        ledger.fault_of_start(start_id, message, want=f"p above {level:.2g}", got=_shown(found, want, got))


def _drafts_decide(ledger: Ledger, start_id: str, cases: Iterable[Case]) -> bool:
    """Whether drafts were accepted and drafts were rejected while sampling; without both no accept rule was tried."""
    counts = [case.answer.counts for case in cases if case.answer.counts is not None]
    drafted, accepted = sum(one.drafted for one in counts), sum(one.accepted for one in counts)
    holds = 0 < accepted < drafted
    message = "while sampling, drafts must be accepted and rejected for the accept rule to be tried"
    ledger.precondition(start_id, holds, message, want="0 < accepted < drafted", got=[drafted, accepted])
    return holds


def _samples(evidence: Evidence, ledger: Ledger, cases: Iterable[Case], start_id: str) -> Strata | None:
    """Return the replies of a start by prompt; None where one was not served."""
    strata: Strata = {}
    is_whole = True
    for case in cases:
        if case.start.id != start_id:
            continue
        ledger.examine(start_id)
        reply = served(evidence, ledger, case)
        is_whole = is_whole and reply is not None
        if reply is not None:
            strata.setdefault(case.request.id.partition("/")[0], []).append(_tokens(reply))
    return strata if is_whole else None


def _tokens(reply: Reply) -> Tokens:
    """Return a reply's ids, or its characters where the surface returns no ids."""
    return tuple(map(ord, reply.text)) if reply.ids is None else reply.ids


def _biased(strata: Strata) -> Strata:
    """Return samples in which a share of the tokens, drawn by chance, is the commonest one of its place."""
    generator = np.random.default_rng(BIAS_SEED)
    return {
        name: [
            tuple(usual if generator.random() < BIAS else token for token, usual in zip(reply, _commonest(replies), strict=False))
            for reply in replies
        ]
        for name, replies in strata.items()
    }


def _commonest(replies: Samples) -> Tokens:
    size = max(map(len, replies))
    return tuple(Counter(reply[at] for reply in replies if at < len(reply)).most_common(1)[0][0] for at in range(size))


def _sides(left: Strata, right: Strata) -> dict[str, tuple[Samples, Samples]]:
    return {name: (left[name], right.get(name, [])) for name in left}


def _joined(first: Strata, second: Strata) -> Strata:
    return {name: [*first[name], *second[name]] for name in first}


def _num_deals(level: float) -> int:
    return round(DEALS_PER_ALARM / level)


def _size(strata: Strata) -> int:
    return sum(map(len, strata.values()))


def _shown(found: Comparison, want: Strata, got: Strata) -> object:
    """Show a finding's histograms: of the first token of each prompt, and where it is one position the tokens there."""
    name, _, place = found.place.partition(", ")
    at = int(place.removeprefix("token ")) if place.startswith("token ") else 0
    names = [name] if name in want else list(want)
    return {name: [Counter(reply[at : at + 1] for reply in side[name]).most_common(5) for side in (want, got)] for name in names}


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.MISMATCH,
        "What an arm that drafts while sampling samples has the plain arm's distribution, at a stated rate of false alarms.",
        _judge_sampled_distribution,
        needs=(Need.COUNTS, Need.SAMPLED_DRAFTS),
    ),
)
