"""What must hold before anything is believed: the plain arm repeats itself, the tracer sees, counts are read, canaries sing.

A control that fails says that the run proves nothing; it says nothing of the subject's speculation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from harness.checks.check import Check, Ledger
from harness.checks.compare import both_told, speculates, starts_of
from harness.checks.evidence import Case, Evidence
from harness.checks.path import path_taken
from harness.records.finding import Verdict
from harness.records.need import Need
from harness.records.recording import Answer, Counts

ENGAGES, ABSTAINS, SILENT = "canary-engages", "canary-abstains", "canary-silent"

_NEVER_THE_SAME = frozenset({"id", "created", "response_id", "seconds"})


def _judge_repeat(evidence: Evidence, ledger: Ledger) -> None:
    for case, reference in evidence.compared("control-repeat"):
        if ledger.reply(case) is None or ledger.reply(reference) is None:
            continue
        ledger.examine(case.start.id)
        leave_out = _NEVER_THE_SAME.union(evidence.declared.never_equal)
        want, got = _timeless(reference.answer, leave_out), _timeless(case.answer, leave_out)
        for name in want:
            ledger.compare(case, f"{name} of the first plain process", want[name], got[name])


def _timeless(answer: Answer, leave_out: Collection[str]) -> dict[str, Any]:
    """Return the answer's fields, without the times and the ids that no two responses share."""
    fields = msgspec.structs.asdict(answer)
    return {name: _without(msgspec.to_builtins(value), leave_out) for name, value in fields.items() if name not in leave_out}


def _without(value: Any, leave_out: Collection[str]) -> Any:
    if isinstance(value, Mapping):
        return {name: _without(inner, leave_out) for name, inner in value.items() if name not in leave_out}
    if isinstance(value, list | tuple):
        return [_without(inner, leave_out) for inner in value]
    return value


def _judge_tracer(evidence: Evidence, ledger: Ledger) -> None:
    control, decoys = evidence.run.tracer_control, evidence.run.decoys
    for recording in evidence.run.recordings:
        ledger.examine(recording.start.id)
    if control is None or not control.traced or not decoys:
        ledger.blind("", "the tracer was never held against decoys", want="a control trace and its decoys", got=len(decoys))
        return
    for reason in control.blind:
        ledger.blind("", "the tracer could not see its decoys", want="a complete trace", got=reason)
    if control.num_opens == 0:
        ledger.blind("", "the tracer saw no open at all", want="num_opens > 0", got=0)
    seen = Counter(event.path for event in control.events if event.call != "ioctl")
    for path, count in (Counter(decoys) - seen).items():
        ledger.blind("", "a decoy that opened a watched path was not seen", want=path, got=f"{count} opens missing")
    for path, count in (seen - Counter(decoys)).items():
        ledger.blind("", "an open was reported that no decoy made", want=list(decoys), got=f"{path}, {count} times too often")


def _judge_counts(evidence: Evidence, ledger: Ledger) -> None:
    for case in evidence.all_cases:
        if "control-counts" in case.request.checks and ledger.reply(case) is None:
            continue
        if case.answer.status == 200 and case.answer.reply is not None:
            ledger.examine(case.start.id)
            _compare_witnesses(evidence, case, ledger)


def _compare_witnesses(evidence: Evidence, case: Case, ledger: Ledger) -> None:
    """Both witnesses of every answer were found, and say the same of all that both tell: log line and response, or others."""
    first, second = case.answer.counts, case.answer.usage_counts
    if first is None:
        ledger.fault(case, "no counts were read for it", want="counts", got=None)
        return
    if second is None:
        if _must_be_seconded(evidence, case):
            ledger.fault(case, "no second witness of its counts, which was asked for", want=msgspec.to_builtins(first), got=None)
        return
    names = both_told(second, first)
    want, got = ({name: getattr(counts, name) for name in names} for counts in (second, first))
    ledger.compare(case, "the first witness of its counts beside the second", want, got)


def _must_be_seconded(evidence: Evidence, case: Case) -> bool:
    """Whether a second witness must be there: for counts that the response holds if asked, or of the only request at its time."""
    if not evidence.declared.seconds_counts:
        return False
    if not evidence.declared.reports_path:
        return not case.request.group
    body = case.request.body or {}
    shows_usage = not case.request.streams or bool((body.get("stream_options") or {}).get("include_usage"))
    return body.get("return_spec") is True and shows_usage and case.request.leave_after_chunks is None


def _judge_canary(evidence: Evidence, ledger: Ledger) -> None:
    for start_id, cases in starts_of(evidence, "control-canary").items():
        silent_ones = []
        for case in cases:
            if ledger.reply(case) is None:
                continue
            ledger.examine(start_id)
            if case.answer.counts is None:
                ledger.fault(case, "no counts came with the answer", want="counts", got=None)
            elif not _sings(evidence, ledger, case, case.answer.counts):
                silent_ones.append(case)
        singers = [case for case in cases if ENGAGES in case.request.roles]
        is_one_enough = not evidence.declared.reports_path  # such a subject shows a draft that was made, not one that was sought
        for case in silent_ones if len(silent_ones) == len(singers) or not is_one_enough else ():
            ledger.fault(case, "a prompt that must engage did not", want="spec", got=_seen(case.answer.counts))
        roles = {role for case in cases for role in case.request.roles}
        due = {ENGAGES, SILENT} if _samples_nothing(evidence, cases[0]) else {ENGAGES, ABSTAINS, SILENT}
        for role in sorted(due - roles):
            ledger.blind(start_id, f"the plan asks no {role} request", want=[ENGAGES, ABSTAINS, SILENT], got=sorted(roles))


def _sings(evidence: Evidence, ledger: Ledger, case: Case, counts: Counts) -> bool:
    """Hold what must not engage, or has no room to draft; return False for what must engage and did not."""
    roles, does = set(case.request.roles), path_taken(counts) == "spec"
    if SILENT in roles:
        ledger.compare(case, "drafts of a reply that leaves no room for one", 0, counts.drafted)
    if ENGAGES in roles and speculates(case):
        return does
    if does and (ENGAGES in roles or (ABSTAINS in roles and not _may_engage(evidence, case))):
        ledger.fault(case, "a request that must not engage did", want="plain", got=_seen(counts))
    return True


def _samples_nothing(evidence: Evidence, case: Case) -> bool:
    """Whether the surface has no sampling, and so no request that the reference engine must abstain from."""
    return evidence.declared.capabilities.get(case.facts.drafter, {}).get("temperature") == "unsupported"


def _seen(counts: Counts | None) -> str:
    return "" if counts is None else f"path={counts.path} rounds={counts.rounds} drafted={counts.drafted} reason={counts.reason}"


def _may_engage(evidence: Evidence, case: Case) -> bool:
    """Whether the description lets a drafter engage on what the reference engine must abstain from: sampled requests."""
    behaviours = evidence.declared.capabilities.get(case.facts.drafter, {})
    return behaviours.get("temperature") == "engaged"


CHECKS: tuple[Check, ...] = (
    Check(
        "control-repeat",
        Verdict.INCONCLUSIVE,
        "Plain against plain, in two processes, is equal in everything but times.",
        _judge_repeat,
    ),
    Check(
        "control-tracer",
        Verdict.BLIND,
        "The tracer sees every decoy that opens a watched path, sees no other open as watched, and loses no event.",
        _judge_tracer,
        needs_trace=True,
    ),
    Check(
        "control-counts",
        Verdict.BLIND,
        "Every answer has its counts, and their two witnesses, log line and response or others, say the same.",
        _judge_counts,
        needs=(Need.COUNTS,),
    ),
    Check(
        "control-canary",
        Verdict.BLIND,
        "On each speculative arm one prompt that must engage does, and what must not does not, or has no room to.",
        _judge_canary,
        needs=(Need.COUNTS,),
    ),
)
