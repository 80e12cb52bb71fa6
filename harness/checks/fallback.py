"""The fallback rule: speculation is off after exactly the window, stays on at exactly the bar, and changes no token."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.checks.check import Check, Ledger
from harness.checks.compare import equal_replies
from harness.checks.evidence import Case, Evidence
from harness.checks.walks import Walk, predicted, walks
from harness.oracle.predict import Prediction, predict
from harness.records.finding import Verdict
from harness.records.need import Need

AT_THE_WINDOW = "throws after exactly its window"
AT_THE_BAR = "keeps drafting at exactly the bar"
LAST_WINDOW = "throws by the last window while the mean of all records is not under the bar"
STAYS_OFF = "would make more rounds without the rule"


def _judge_fallback_round(evidence: Evidence, ledger: Ledger) -> None:
    for walk in walks(evidence, ledger, "fallback-round", _has_rule):
        _compare_rule(walk, ledger)
        _compare_reply(walk.case, evidence, ledger)
    wanted = predicted(evidence, "fallback-round")
    if wanted is None:
        return
    shown: set[str] = set()
    for case, want in wanted:
        if _has_rule(case, want):
            shown |= _shows(case, want) | _shows_off(case, want, evidence)
    for feature in (AT_THE_WINDOW, AT_THE_BAR, LAST_WINDOW, STAYS_OFF):
        if feature not in shown:
            ledger.blind("", f"no request of the plan {feature}", want=feature, got=sorted(shown))


def _has_rule(case: Case, want: Prediction) -> bool:
    return _bar(case) > 0 and want.path == "spec" and want.counts is not None


def _compare_rule(walk: Walk, ledger: Ledger) -> None:
    """Hold the record at which the rule threw, and the rounds made until then, against the oracle's."""
    counts, want = walk.counts, walk.want.counts
    assert want is not None
    rule = f"below={_bar(walk.case):g} window={_window(walk.case)}"
    if counts.fallback != want.fallback:
        ledger.fault(walk.case, f"fallback ({rule}) is not the oracle's", want=_said(want.fallback), got=_said(counts.fallback))
    elif counts.rounds != want.rounds:
        place = "kept drafting" if (counts.rounds or 0) > (want.rounds or 0) else "stopped drafting"
        thrown = _said(counts.fallback)
        ledger.fault(walk.case, f"{place} against the rule ({rule}, fallback={thrown})", want=want.rounds, got=counts.rounds)


def _compare_reply(case: Case, evidence: Evidence, ledger: Ledger) -> None:
    """Falling back changes how tokens are produced, never which."""
    reference = evidence.reference(case)
    if reference is not None and reference.answer.reply is not None and case.answer.reply is not None:
        equal_replies(ledger, case, reference.answer.reply, case.answer.reply, " of the plain arm")


def _shows(case: Case, want: Prediction) -> set[str]:
    """Return which sides of the rule a request exercises, by the predicted rounds alone."""
    assert want.counts is not None
    assert want.rounds is not None
    bar, window, thrown_at = _bar(case), _window(case), want.counts.fallback
    records = [one.num_accepted + 1 for one in want.rounds]
    if thrown_at is None:
        recorded = records[:-1]  # the last round may have ended the reply
        return {AT_THE_BAR} if bar > 1 and bar * window in _window_sums(recorded, window) else set()
    shown = {AT_THE_WINDOW} if thrown_at == window else set()
    if sum(records[:thrown_at]) / thrown_at >= bar:
        shown.add(LAST_WINDOW)
    return shown


def _shows_off(case: Case, want: Prediction, evidence: Evidence) -> set[str]:
    """Return whether a head that drafts on after the rule threw would make other rounds here."""
    start, plain = case.start, evidence.reference(case)
    parameters = {name: value for name, value in start.parameters.items() if not name.startswith("fallback_")}
    without = msgspec.structs.replace(start, parameters=parameters)
    if plain is None or want.counts is None:
        return set()
    unruled = predict(without, case.request, plain.answer, evidence.declared, evidence.run.expectations)
    num_unruled = (unruled.counts.rounds if unruled and unruled.counts else None) or 0
    return {STAYS_OFF} if num_unruled > (want.counts.rounds or 0) else set()


def _window_sums(records: Sequence[int], window: int) -> list[int]:
    return [sum(records[at : at + window]) for at in range(len(records) - window + 1)]


def _bar(case: Case) -> float:
    return float(case.start.parameters.get("fallback_below", 0))


def _window(case: Case) -> int:
    return int(case.start.parameters.get("fallback_window", 3))


def _said(thrown_at: int | None) -> str:
    return "-" if thrown_at is None else str(thrown_at)


CHECKS: tuple[Check, ...] = (
    Check(
        "fallback-round",
        Verdict.WRONG_PATH,
        "Speculation is off after exactly the window under the bar, goes on at exactly the bar, and the text is unchanged.",
        _judge_fallback_round,
        needs=(Need.COUNTS,),
    ),
)
