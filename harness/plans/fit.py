"""From a plan whose arms are parts to play (plain, lookup, draft, ...) to the plan of one subject: its arms, its fixtures, what it can say.

A part that several arms play becomes a start for each of them. What the subject has no arm, parameter or word for is left out, and for a
law of which nothing is left it is written down why. On the reference engine, which plays every part itself, nothing changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from harness.oracle.abstain import asks_for
from harness.plans.alone import with_draft_model
from harness.records.fixture import Fixture
from harness.records.need import Need, all_lacked_by_arm, all_lacked_by_subject, lacked_by_subject
from harness.records.plan import Plan, Request, Start
from harness.records.recording import Declared
from harness.subjects.declarations import IgnoreEos
from harness.subjects.description import Description
from harness.subjects.dialects import unsaid

Needs = Mapping[str, Sequence[Need]]  # by check
FAILS_BY_HAND = ("fail_pass", "failed")  # a parameter, and the role of the one request for which it is there
WHOLE = "whole"  # role of a reply that nothing cuts
SWEEP = "sweep"  # role of many sampled requests alike
PLAIN = "plain"  # the start on the model that no stream's token ends
ENDS = "eos="  # the part of a twin's name that gives it end tokens
CAPABILITIES, ASKS = "capabilities", "asks-"  # a law, and how the roles of its requests begin
CLIENT_ERROR = 400
UNSUPPORTED, REFUSES = "unsupported", "4xx"
OVER_LONG = "over_long_prompt"  # a capability
LAWS_ON: Mapping[str, tuple[str, ...]] = MappingProxyType(  # the laws of which nothing is left without one capability
    {
        "stop": ("stop-cut",),
        "grammar": ("grammar-valid",),
        "logprobs": ("logprobs-target",),
        "temperature": ("same-sampled-reply",),
        "stream": ("stream-join", "cancel-frees"),
        "logit_bias": ("concurrent-neighbours",),  # what marks them
        "ignore_eos": ("end-token",),
    }
)
HOLD_WHILE_SAMPLED = frozenset(
    {CAPABILITIES, "control-canary", "accounting", "sampled-distribution"}
)  # laws that need no plain reply
NOT_THERE, REFUSED = "its surface has no", "it refuses"  # why a request or a law is left out, before the name of a capability
OTHER_SAMPLES = "its sampled replies are not the plain arm's: drafting takes other random numbers"
PROMPT = "prompt"  # a field that every dialect refuses where it is as long as the context


@dataclass(slots=True)
class _Left:
    """Why a law lost something: every reason, in the order in which they were met. Those that begin alike are told as one."""

    _reasons: dict[str, dict[str, dict[str, None]]] = field(default_factory=dict)  # by check and beginning

    def out(self, checks: Iterable[str], why: str, *things: str) -> None:
        for check in checks:
            self._reasons.setdefault(check, {}).setdefault(why, {}).update(dict.fromkeys(things))

    def reasons(self, check: str) -> list[str]:
        """Return why a law lost something, a sentence for each reason."""
        told = self._reasons.get(check, {})
        return [f"{why} {', '.join(things)}" if things else why for why, things in told.items()]


def fitted(plan: Plan, description: Description, fixture: Fixture, needs: Needs) -> Plan:
    """Return the plan as `description`'s subject can be asked it, with what is not tested and why."""
    declared = description.declared()
    left = _Left()
    starts = [one for start in plan.starts for one in _played(start, description, left)]
    samples_with_drafts = not lacked_by_subject(Need.SAMPLED_DRAFTS, declared)
    starts = _with_references(starts if samples_with_drafts else [_unswept(start) for start in starts], left)
    starts = [_supported(_spoken(start, description, left), declared, left) for start in starts]
    starts = [_alike(start, declared, left) for start in starts]
    if description.dialect.ignore_eos is IgnoreEos.BANS:
        starts = _moved_wholes(starts, left)
    starts = [_shown(start, declared, needs, left) for start in starts]
    starts = _without_idle_references(plan.starts, starts)
    predicted = [check for check in plan.checks if _is_predicted(check, declared, needs)]
    starts, unasked = with_draft_model(starts, declared, fixture, predicted)
    gone = _laws_gone(plan, starts, declared, needs, left)
    starts = [_without(start, gone) for start in starts]
    kept = tuple(_still_needed(starts))
    checks = tuple(check for check in plan.checks if check not in gone)
    partly = {**dict(_unpredicted(kept, declared, needs, checks)), **unasked, **_unlike(kept, declared)}
    return msgspec.structs.replace(plan, starts=kept, checks=checks, not_tested={**plan.not_tested, **gone, **partly})


def _played(start: Start, description: Description, left: _Left) -> Iterator[Start]:
    """Yield a start for each arm that plays its part."""
    checks = _checks_of(start)
    arms = description.arms_of(start.arm)
    if not arms:
        left.out(checks, "no arm plays", start.arm)
    fixed = _with_fixtures(start, description)
    if fixed is None:
        left.out(checks, "nothing stands for pack", str(start.pack))
    for arm in arms:
        given = _without_failing_by_hand(start if fixed is None else fixed, description.parameters_of(arm))
        strange = sorted(given.parameters.keys() - description.parameters_of(arm))
        least = description.arms[arm].least_k
        is_short = _is_short(given, least)
        if strange:
            left.out(checks, f"no {' or '.join(strange)} is taken by arm", arm)
        if is_short:
            left.out(checks, f"fewer than {least} drafts are never made by arm", arm)
        if fixed is None or strange or is_short:
            continue
        name = start.id if len(arms) == 1 and arm == start.arm else _renamed(start, arm)
        yield msgspec.structs.replace(given, id=name, arm=arm)


def _is_short(start: Start, least: int) -> bool:
    k = start.parameters.get("k")
    return start.expect != "refused" and isinstance(k, int) and k < least


def _renamed(start: Start, arm: str) -> str:
    """Put the arm's name in the place of its part: "k-15/lookup" becomes "k-15/ngram-mod"."""
    head, _, last = start.id.rpartition("/")
    name = arm if last == start.arm else f"{last}-{arm}"
    return f"{head}/{name}" if head else name


def _with_fixtures(start: Start, description: Description) -> Start | None:
    """Return a start with models and packs as the subject takes them; None where nothing stands for its pack."""
    fixtures = description.fixtures
    model = f"{start.model}+{fixtures.format}" if fixtures.format else start.model
    if start.pack is None or fixtures.packs is None:
        return msgspec.structs.replace(start, model=model)
    pack = fixtures.packs.get(start.pack)
    return None if pack is None else msgspec.structs.replace(start, model=model, pack=pack)


def _without_failing_by_hand(start: Start, taken: frozenset[str]) -> Start:
    """Leave out the fault that is put in by hand, and the request that it is for, where the subject has no such switch."""
    parameter, role = FAILS_BY_HAND
    if parameter not in start.parameters or parameter in taken:
        return start
    parameters = {name: value for name, value in start.parameters.items() if name != parameter}
    requests = tuple(request for request in start.requests if role not in request.roles)
    return msgspec.structs.replace(start, parameters=parameters, requests=requests)


def _with_references(starts: Sequence[Start], left: _Left) -> list[Start]:
    """Return the starts whose reference and host are there."""
    ids = {start.id for start in starts}
    kept = []
    for start in starts:
        missing = [name for name in (start.reference, start.host, start.drafts_as) if name is not None and name not in ids]
        if missing:
            left.out(_checks_of(start), "not started is what it is compared with:", *missing)
        else:
            kept.append(start)
    return kept


def _spoken(start: Start, description: Description, left: _Left) -> Start:
    """Return a start with the requests that the subject's dialect has words for."""
    kept = []
    for request in start.requests:
        words = unsaid(request, description)
        is_unnamed = _must_name_a_field(request) and not description.dialect.names_refusals
        if words:
            left.out(request.checks, "its dialect has no words for", *words)
        if is_unnamed:
            left.out(request.checks, "its refusals do not name a field")
        if not words and not is_unnamed:
            kept.append(request)
    return msgspec.structs.replace(start, requests=tuple(kept))


def _supported(start: Start, declared: Declared, left: _Left) -> Start:
    """Return a start with the requests whose fields the subject's surface has on its arm."""
    behaviours = declared.capabilities.get(declared.facts_of(start).drafter, {})
    kept = []
    for request in start.requests:
        asked = (*asks_for(request), *(role.removeprefix(ASKS) for role in request.roles if role.startswith(ASKS)))
        lacking = [name for name in asked if behaviours.get(name) == UNSUPPORTED]
        if lacking:
            left.out(request.checks, NOT_THERE, *lacking)
        elif request.refusal == PROMPT and behaviours.get(OVER_LONG, REFUSES) != REFUSES and CAPABILITIES not in request.checks:
            left.out(request.checks, "it takes a prompt as long as its context")
        else:
            kept.append(_refused(request, asked, behaviours, left))
    lost = {check for name, _ in _lost(behaviours) for check in LAWS_ON[name]}
    for name, why in _lost(behaviours):
        left.out(set(_checks_of(start)).intersection(LAWS_ON[name]), why, name)
    return _without(msgspec.structs.replace(start, requests=tuple(kept)), lost)


def _refused(request: Request, asked: Sequence[str], behaviours: Mapping[str, str], left: _Left) -> Request:
    """Return a request whose field is declared to be refused as one that the law on capabilities alone reads."""
    refused = [name for name in asked if behaviours.get(name) == REFUSES and name != OVER_LONG]
    if not refused or request.expect >= CLIENT_ERROR:
        return request
    left.out([check for check in request.checks if check != CAPABILITIES], REFUSED, *refused)
    return msgspec.structs.replace(request, checks=tuple(check for check in request.checks if check == CAPABILITIES))


def _lost(behaviours: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the capabilities that laws need and the surface has not, and why."""
    for name in LAWS_ON:
        if behaviours.get(name) == UNSUPPORTED:
            yield name, NOT_THERE
        elif behaviours.get(name) == REFUSES:
            yield name, REFUSED


def _alike(start: Start, declared: Declared, left: _Left) -> Start:
    """Return a start whose sampled requests are read by laws that hold whatever was drawn, where its arm draws otherwise than plain."""
    if declared.facts_of(start).samples_alike:
        return start
    requests = []
    for request in start.requests:
        if not request.is_greedy and request.body is not None:
            left.out([check for check in request.checks if check not in HOLD_WHILE_SAMPLED], OTHER_SAMPLES)
            kept = tuple(check for check in request.checks if check in HOLD_WHILE_SAMPLED)
            request = msgspec.structs.replace(request, checks=kept)  # noqa: PLW2901
        requests.append(request)
    return _without(msgspec.structs.replace(start, requests=tuple(requests)), {"same-sampled-reply": OTHER_SAMPLES})


def _unlike(starts: Sequence[Start], declared: Declared) -> dict[str, str]:
    """Return the arms whose sampled replies are compared with none, and why."""
    arms = dict.fromkeys(start.arm for start in starts if not declared.facts_of(start).samples_alike)
    return {f"sampled replies on {', '.join(arms)}": OTHER_SAMPLES} if arms else {}


def _unswept(start: Start) -> Start:
    """Leave out requests that are worth their time on subjects that speculate while sampling."""
    return msgspec.structs.replace(start, requests=tuple(one for one in start.requests if SWEEP not in one.roles))


def _must_name_a_field(request: Request) -> bool:
    """Whether a request must be refused for a field whose value only the reference engine's dialect forbids."""
    return request.expect >= CLIENT_ERROR and request.refusal not in ("", PROMPT)


def _moved_wholes(starts: Sequence[Start], left: _Left) -> list[Start]:
    """Ask for replies that must go on behind an end token where that token is none: of the plain start on the same weights.

    On a subject that ignores end tokens by banning them, no request to the twin would show what comes behind one; whatever else asks
    for it there is left out, but for the law on whether the field does anything.
    """
    moved: list[Request] = []
    base: Start | None = None
    changed = []
    for start in starts:
        kept = []
        for request in start.requests:
            if not _goes_on_behind_end(start, request):
                kept.append(request)
                continue
            if WHOLE in request.roles and start.reference is None:
                moved.append(_plainly(request))
                base = msgspec.structs.replace(start, id=PLAIN, model=_without_ends(start.model), requests=())
            others = tuple(check for check in request.checks if check != CAPABILITIES)
            left.out(others, "it bans end tokens where it is to ignore them")
            if CAPABILITIES in request.checks:
                kept.append(msgspec.structs.replace(request, checks=(CAPABILITIES,)))
        changed.append(msgspec.structs.replace(start, requests=tuple(kept)))
    if base is not None and not any(start.id == PLAIN for start in changed):
        changed.insert(0, base)
    return [_also_asked(start, moved) if start.id == PLAIN else start for start in changed]


def _without_ends(model: str) -> str:
    return "+".join(part for part in model.split("+") if not part.startswith(ENDS))


def _goes_on_behind_end(start: Start, request: Request) -> bool:
    return f"+{ENDS}" in start.model and bool((request.body or {}).get("ignore_eos"))


def _plainly(request: Request) -> Request:
    body = {name: value for name, value in (request.body or {}).items() if name != "ignore_eos"}
    checks = tuple(check for check in request.checks if check != CAPABILITIES)
    name = request.id.replace("/ignore_eos=True", "")
    return msgspec.structs.replace(request, id=name, checks=checks, role=WHOLE, body=body)


def _also_asked(start: Start, requests: Sequence[Request]) -> Start:
    """Return a start that is asked further requests; one that it is asked already gets their checks and roles."""
    by_id = {request.id: request for request in start.requests}
    for request in requests:
        former = by_id.get(request.id)
        if former is not None:
            checks = tuple(dict.fromkeys((*former.checks, *request.checks)))
            role = " ".join(dict.fromkeys((*former.roles, *request.roles)))
            request = msgspec.structs.replace(former, checks=checks, role=role)  # noqa: PLW2901
        by_id[request.id] = request
    return msgspec.structs.replace(start, requests=tuple(by_id.values()))


def _shown(start: Start, declared: Declared, needs: Needs, left: _Left) -> Start:
    """Return a start whose requests are read by those checks that can see what they need on its arm."""
    facts = declared.facts_of(start)
    blind = {check: whys for check, wanted in needs.items() if (whys := all_lacked_by_arm(wanted, facts, declared))}
    for check in set(_checks_of(start)) & blind.keys():
        for why in blind[check]:
            left.out((check,), why)
    return _without(start, blind)


def _without_idle_references(planned: Sequence[Start], starts: Sequence[Start]) -> list[Start]:
    """Take from starts the laws for which others were to be compared with them, where none of those is left."""
    used, had = _readers(starts), _readers(planned)
    return [_without(start, dict.fromkeys(had.get(start.id, set()) - used.get(start.id, set()), "")) for start in starts]


def _readers(starts: Sequence[Start]) -> dict[str, set[str]]:
    """Return the laws that compare with each reference."""
    laws: dict[str, set[str]] = {}
    for start in starts:
        if start.reference is not None:
            laws.setdefault(start.reference, set()).update(_checks_of(start))
    return laws


def _laws_gone(plan: Plan, starts: Sequence[Start], declared: Declared, needs: Needs, left: _Left) -> dict[str, str]:
    """Return the laws that the subject cannot show, or of which only what others are compared with is left, and why."""
    gone = {}
    for check in plan.checks:
        reads_results = not any(check in _checks_of(start) for start in plan.starts)
        whys = all_lacked_by_subject(needs.get(check, ()), declared)
        references = {start.reference for start in (*plan.starts, *starts)}
        had, has = _is_compared(plan.starts, check, references), _is_compared(starts, check, references)
        asked = any(check in _checks_of(start) for start in starts)
        is_left = reads_results or (asked and (has or not had))
        if whys or not is_left:
            whys += [] if is_left else left.reasons(check)
            gone[check] = "; ".join(dict.fromkeys(whys)) or "nothing of it is left"
    return gone


def _is_compared(starts: Sequence[Start], check: str, references: Collection[str | None]) -> bool:
    """Whether a check reads a start that others are not merely compared with."""
    return any(check in _checks_of(start) for start in starts if start.id not in references)


def _without(start: Start, checks: Collection[str]) -> Start:
    """Return a start whose requests some checks do not read."""
    requests = [
        msgspec.structs.replace(request, checks=tuple(check for check in request.checks if check not in checks))
        for request in start.requests
    ]
    return msgspec.structs.replace(start, requests=tuple(requests))


def _still_needed(starts: Sequence[Start]) -> Iterator[Start]:
    """Yield the starts that a check reads, with the requests that one reads, or that another start is compared with."""
    for start in starts:
        asked_by_others = {
            request.id
            for other in starts
            if start.id in (other.reference, other.host, other.drafts_as)
            for request in other.requests
            if request.checks
        }
        requests = tuple(one for one in start.requests if one.checks or one.id in asked_by_others)
        if requests:
            yield msgspec.structs.replace(start, requests=requests)


def _is_predicted(check: str, declared: Declared, needs: Needs) -> bool:
    """Whether a law that the subject can show needs predictions."""
    wanted = needs.get(check, ())
    return Need.PREDICTIONS in wanted and not any(lacked_by_subject(need, declared) for need in wanted)


def _unpredicted(starts: Sequence[Start], declared: Declared, needs: Needs, checks: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what is not tested on single arms: laws that need a prediction, on arms whose drafter no oracle knows."""
    facts = {start.arm: declared.facts_of(start) for start in starts}
    for check in checks:
        arms_by_why: dict[str, list[str]] = {}
        for arm, of_arm in facts.items():
            arms_by_why.setdefault("; ".join(all_lacked_by_arm(needs.get(check, ()), of_arm, declared)), []).append(arm)
        yield from ((f"{check} on {', '.join(arms)}", why) for why, arms in arms_by_why.items() if why)


def _checks_of(start: Start) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check for request in start.requests for check in request.checks))
