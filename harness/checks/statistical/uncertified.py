"""The law on subjects whose replies are not certified: what differs from plain's is a near-tie within the budget, or a fault.

It gathers what was seen of each pair of replies and lets the rules of near_tie.py tell. Certified subjects never come here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from harness.checks.check import Check, Ledger
from harness.checks.evidence import Evidence
from harness.checks.statistical.near_tie import Band, Classified, Kind, Observed, classify
from harness.checks.statistical.sight import Sight, band_of_plain
from harness.records.difference import Compared, compared, followed
from harness.records.finding import CheckResult, Finding, Verdict
from harness.records.need import Need

CHECK = "near-ties"
OF_REPLIES = re.compile(
    r"^(ids|text|finish_reason|stop_reason|completion_tokens|the reply of the longest budget, cut)\b.*differs"
)
FOLLOWS = ("exact-counts", "exact-drafts", "accounting")  # their predictions walk plain's reply
VERDICTS = {Kind.FAULT: Verdict.MISMATCH, Kind.VOID: Verdict.BLIND, Kind.UNSTABLE: Verdict.INCONCLUSIVE}


@dataclass(frozen=True, slots=True)
class _Told:
    """A pair of replies, and what it is."""

    pair: Compared
    is_what: Classified
    seen: Observed | None = None
    band: Band | None = None


def excused(evidence: Evidence, results: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    """Return the results with each finding that is a near-tie, or that follows from one, marked as such."""
    if evidence.declared.certified:
        return tuple(results)
    ties = {(one.pair.start.id, one.pair.request.id) for one in _told(evidence) if one.is_what.kind is Kind.NEAR_TIE}

    def marked(finding: Finding) -> Finding:
        is_there = (finding.start, finding.request) in ties and not finding.known
        is_its = finding.check in FOLLOWS or OF_REPLIES.match(finding.message) is not None
        return msgspec.structs.replace(finding, known=Kind.NEAR_TIE.value) if is_there and is_its else finding

    return tuple(msgspec.structs.replace(one, findings=tuple(map(marked, one.findings))) for one in results)


def _judge_near_ties(evidence: Evidence, results: Sequence[CheckResult], ledger: Ledger) -> None:
    findings = [finding for result in results for finding in result.findings if finding.known]
    pinned = {(one.start, one.request) for one in findings if one.known != Kind.NEAR_TIE.value}
    told = list(_told(evidence))
    for one in told:
        ledger.examine(one.pair.start.id)
    counted = [one for one in told if (one.pair.start.id, one.pair.request.id) not in pinned]
    kinds = Counter(one.is_what.kind for one in counted)
    budget = evidence.declared.near_tie_budget
    ledger.note(
        f"{len(told)} replies compared with plain's, {len(told) - len(counted)} of them pinned faults: "
        f"{', '.join(f'{kinds[kind]} {kind.value}' for kind in Kind)}; budget {budget} NEAR-TIE"
    )
    for one in counted:
        if one.is_what.kind is Kind.EQUAL:
            continue
        ledger.note(_line(one))
        verdict = VERDICTS.get(one.is_what.kind)
        if verdict is not None:
            _write(evidence, ledger, one, f"{one.is_what.kind.value}: {one.is_what.why}", verdict)
    ties = [one for one in counted if one.is_what.kind is Kind.NEAR_TIE]
    for one in ties if len(ties) > budget else ():
        _write(evidence, ledger, one, f"NEAR-TIE, one of {len(ties)} where the budget is {budget}: {_sizes(one)}", None)


def _write(evidence: Evidence, ledger: Ledger, one: _Told, message: str, verdict: Verdict | None) -> None:
    case = evidence.case(one.pair.start.id, one.pair.request.id)
    assert case is not None, "a pair that was compared was asked"
    ledger.fault(case, message, want=one.pair.want, got=one.pair.got, first_difference=one.pair.index, verdict=verdict)


def _line(one: _Told) -> str:
    place = f"{one.is_what.kind.value} {one.pair.start.id}: {one.pair.request.id} at token {one.pair.index}"
    return f"{place}: {_sizes(one) if one.is_what.kind is Kind.NEAR_TIE else one.is_what.why}"


def _sizes(one: _Told) -> str:
    seen, band, gap = one.seen, one.band, one.is_what.gap
    assert seen is not None, "nothing is a near-tie unseen"
    assert band is not None, "nothing is a near-tie without a band"
    assert gap is not None, "nothing is a near-tie without a gap"
    assert one.pair.index is not None, "what is equal is no near-tie"
    return (
        f"{one.pair.got[one.pair.index]} for plain's {one.pair.want[one.pair.index]}, gap {gap:.2g}, larger than {band.rank(gap)} of "
        f"plain's own {len(band.gaps)}; band {band.width:.2g} of {band.num_scores} scores; {_forced_text(seen)}"
    )


def _forced_text(seen: Observed) -> str:
    """Say where the tokens of a reply lie, forced through the plain arm."""
    known = [size for size in seen.forced if size is not None]
    if not known:
        return "not teacher-forced: what may be chosen there is not known"
    where = "at plain's own choice" if seen.is_greedy else "within plain's reach"
    below = [size for size in known if size > 0]
    told = f"teacher-forced {len(known) - len(below)} of {len(seen.forced)} tokens {where}"
    return f"{told}, {len(below)} below by {max(below):.2g} at most" if below else told


def _told(evidence: Evidence) -> Iterator[_Told]:
    """Yield what each compared pair of replies is."""
    run = evidence.run
    numbers = {
        (one.start.id, one.request.id): number for number, one in enumerate(followed(run.plan, run.recordings, run.declared))
    }
    bands: dict[str, Band | None] = {}
    for pair in compared(run.plan, run.recordings, run.declared):
        if pair.index is None:
            yield _Told(pair, Classified(Kind.EQUAL, "every token is plain's"))
            continue
        seen = Sight(evidence, pair, numbers.get((pair.start.id, pair.request.id))).observed()
        reference = pair.start.reference or ""
        if reference not in bands:
            bands[reference] = band_of_plain(run, reference)
        yield _Told(pair, classify(seen, bands[reference]), seen, bands[reference])


def _reads_results(_evidence: Evidence, _ledger: Ledger) -> None:
    """Judge nothing by itself: what the other checks found is judged after them."""


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.MISMATCH,
        "On a subject that is not certified each reply that differs from plain's is a near-tie within the budget, and no fault.",
        _reads_results,
        needs=(Need.UNCERTIFIED,),
        after=_judge_near_ties,
    ),
)
