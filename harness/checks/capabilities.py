"""The law on capabilities: what a description says of a field on an arm is what happens; a field that changes nothing was ignored.

Each request carries one field more than the one beside it. It knows how each field must show in an answer, and no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from harness.checks.check import Check, Ledger
from harness.checks.compare import asked_of, speculates, starts_of
from harness.checks.evidence import Case, Evidence
from harness.checks.path import path_taken
from harness.checks.stops import stops_of
from harness.oracle.abstain import asks_for
from harness.oracle.constraints import constraint_of
from harness.records.finding import Verdict
from harness.records.need import Need
from harness.records.recording import Reply

CHECK = "capabilities"
BESIDE, ASKS = "beside", "asks-"  # role of the request without the field; how the roles of those with one begin
ENGAGED, ABSTAINS, REFUSES, UNSUPPORTED = "engaged", "abstains", "4xx", "unsupported"
CLIENT_ERRORS = range(400, 500)


@dataclass(frozen=True, slots=True)
class _Probe:
    """One request for a capability, the one beside it, and all others of its start."""

    case: Case
    reply: Reply
    beside: Reply
    cases: list[Case]


def _judge_capabilities(evidence: Evidence, ledger: Ledger) -> None:
    for start_id, cases in starts_of(evidence, CHECK).items():
        behaviours = evidence.declared.capabilities.get(cases[0].facts.drafter, {})
        beside = next((case for case in cases if BESIDE in case.request.roles), None)
        for case in cases:
            ledger.examine(start_id)
            for capability in _asked(case):
                _judge_one(evidence, ledger, case, beside, cases, capability, behaviours.get(capability, ""))
        asked = {capability for case in cases for capability in _asked(case)}
        due = {name for name, behaviour in behaviours.items() if behaviour != UNSUPPORTED} - {IGNORE_EOS}
        for name in sorted(due - asked) if asked - {IGNORE_EOS} else ():  # a start on a twin with end tokens asks for them alone
            ledger.blind(start_id, f"the plan asks no request for {name}", want=name, got=sorted(asked))


def _asked(case: Case) -> list[str]:
    return [role.removeprefix(ASKS) for role in case.request.roles if role.startswith(ASKS)]


def _judge_one(
    evidence: Evidence, ledger: Ledger, case: Case, beside: Case | None, cases: list[Case], capability: str, behaviour: str
) -> None:
    """Hold one request for a capability against the behaviour that its arm's drafter declares for it."""
    if not behaviour:
        ledger.fault(case, f"nothing is declared for {capability}", want="engaged, abstains, 4xx or unsupported", got=None)
        return
    status = case.answer.status
    if behaviour == REFUSES or capability == OVER_LONG:
        if (status in CLIENT_ERRORS) != (behaviour == REFUSES):
            ledger.fault(case, f"{capability} is declared {behaviour}", want=behaviour, got=f"status {status}")
        return
    reply, plainly = ledger.reply(case), ledger.reply(beside) if beside is not None else None
    if reply is None or plainly is None:
        return
    if not _SHOWS[capability](_Probe(case, reply, plainly, cases)):
        ledger.fault(case, f"{capability} was ignored: the answer does not show it", want=_told(case, capability), got=reply.text)
        return
    _judge_path(evidence, ledger, case, capability, behaviour)


def _judge_path(evidence: Evidence, ledger: Ledger, case: Case, capability: str, behaviour: str) -> None:
    """Hold whether a served request was speculated on; one that also asks for what its arm abstains on says nothing of other fields."""
    counts = case.answer.counts
    behaviours = evidence.declared.capabilities[case.facts.drafter]
    also_abstains = any(behaviours.get(other) == ABSTAINS for other in asks_for(case.request) if other != capability)
    if counts is None or not speculates(case) or (also_abstains and behaviour == ENGAGED):
        return
    path = path_taken(counts)
    if behaviour == ABSTAINS and path != "plain":
        ledger.fault(case, f"{capability} is declared {behaviour}, and was speculated on", want="plain", got=path)
    elif behaviour == ENGAGED and path != "spec" and _must_engage(evidence, case, capability):
        ledger.fault(case, f"{capability} is declared {behaviour}, and was not speculated on", want="spec", got=path)


def _must_engage(evidence: Evidence, case: Case, capability: str) -> bool:
    """Whether a request must be speculated on if its arm engages on its field: not where a path is only seen by its drafts, and no drafts
    are due."""
    if evidence.declared.reports_path:
        return True
    want = evidence.prediction(case)
    if want is not None:
        return want.path == "spec"
    return capability in _REPEATING and not case.facts.remembers


def _shows_stop(probe: _Probe) -> bool:
    (stop,) = stops_of(probe.case.request)
    return stop in probe.beside.text and probe.reply.text == probe.beside.text.partition(stop)[0]


def _differs(probe: _Probe) -> bool:
    return probe.reply.text != probe.beside.text


def _is_same(probe: _Probe) -> bool:
    return probe.reply.text == probe.beside.text


def _shows_seed(probe: _Probe) -> bool:
    """Whether the same seed gave the same reply, and another seed another one, wherever both were asked."""
    others = [case for case in probe.cases if "seed" in _asked(case) and case.request.id != probe.case.request.id]
    same = [case for case in others if asked_of(case) == asked_of(probe.case)]
    differing = [case for case in others if asked_of(case) != asked_of(probe.case)]
    texts = {case.request.id: case.answer.reply.text for case in others if case.answer.reply is not None}
    is_repeated = all(texts.get(case.request.id) == probe.reply.text for case in same)
    return is_repeated and all(texts.get(case.request.id) != probe.reply.text for case in differing)


def _shows_grammar(probe: _Probe) -> bool:
    constraint = constraint_of(probe.case.request.body or {})
    return constraint is not None and constraint.is_whole(probe.reply.text) and not constraint.is_whole(probe.beside.text)


def _shows_ids_out(probe: _Probe) -> bool:
    """Whether ids come where they are asked for, and only there."""
    return probe.reply.ids is None and probe.beside.ids is not None


def _shows_stream(probe: _Probe) -> bool:
    return len(probe.case.answer.chunks) > 1 and _is_same(probe)


def _shows_ban(probe: _Probe) -> bool:
    return bool(probe.beside.text) and not probe.reply.text.startswith(probe.beside.text[0]) and _differs(probe)


def _goes_on(probe: _Probe) -> bool:
    return probe.beside.finish_reason == "stop" and probe.reply.finish_reason == "length"


OVER_LONG, IGNORE_EOS = "over_long_prompt", "ignore_eos"
_SHOWS: Mapping[str, Callable[[_Probe], bool]] = MappingProxyType(
    {
        "stop": _shows_stop,
        "temperature": _differs,
        "seed": _shows_seed,
        "logprobs": lambda probe: bool(probe.reply.logprobs) and not probe.beside.logprobs,
        "grammar": _shows_grammar,
        "penalties": _differs,
        "logit_bias": _shows_ban,
        IGNORE_EOS: _goes_on,
        "ids_in": _is_same,
        "ids_out": _shows_ids_out,
        "stream": _shows_stream,
    }
)
_REPEATING = frozenset(
    {"logprobs", "ids_in", "ids_out", "stream"}
)  # the reply is the one beside it, all of it, which every drafter hits


def _told(case: Case, capability: str) -> str:
    value = (case.request.body or {}).get(capability)
    return f"what {capability}={value!r} asks for" if value is not None else f"what {capability} asks for"


CHECKS: tuple[Check, ...] = (
    Check(
        CHECK,
        Verdict.IGNORED,
        "For each capability and arm the declared behaviour is the one that happens; a field that changes nothing was ignored.",
        _judge_capabilities,
        needs=(Need.CAPABILITIES,),
    ),
)
