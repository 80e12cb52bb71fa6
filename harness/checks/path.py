"""Who took the speculative path, and what it did there: engaged exactly where it should, with drafts where drafts are due.

It knows how a path must look (the oracle's prediction) and not how the reply must read, but for requests that abstain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType

from harness.checks.check import Check, Ledger
from harness.checks.compare import counts_of, equal_replies, speculates, starts_of
from harness.checks.dumps import compare_dumps
from harness.checks.evidence import Case, Evidence
from harness.checks.walks import Walk, predicted, walks
from harness.oracle.predict import DFLASH, LOOKUP, Prediction
from harness.records.finding import Verdict
from harness.records.need import Need, lacked_by_arm
from harness.records.recording import Counts

SEED_ROLE = "seed"
NUM_SEED_REQUESTS = 16  # of the seed plan, on each arm
NUM_SEED_ENGAGED = 15  # of them on a speculative arm: all but the sampled one

_THAN_PLAIN = " of the plain arm"


def _judge_engaged_exactly(evidence: Evidence, ledger: Ledger) -> None:
    seeds: dict[str, list[Walk]] = defaultdict(list)
    for walk in walks(evidence, ledger, "engaged-exactly"):
        _compare_path(walk, ledger)
        if SEED_ROLE in walk.case.request.roles:
            seeds[walk.case.start.id].append(walk)
    for start_id, seed_walks in seeds.items() if evidence.declared.reports_path else ():
        _count_seed(start_id, seed_walks, ledger)
    paths: dict[str, set[str]] = defaultdict(set)  # of each arm that can speculate
    for case, want in predicted(evidence, "engaged-exactly") or ():
        if speculates(case):
            paths[case.start.arm].add(want.path)
    for arm, asked in paths.items():
        for missing in sorted({"spec", "plain"} - asked):
            ledger.blind("", f"arm {arm}: no request must take the {missing} path, so one direction is not tested")


def _compare_path(walk: Walk, ledger: Ledger) -> None:
    """Hold one request's path against the predicted one."""
    got = path_taken(walk.counts)
    if got != walk.want.path:
        verb = "took the speculative path" if got == "spec" else "stayed on the plain path"
        seen = f"path={walk.counts.path} rounds={walk.counts.rounds} drafted={walk.counts.drafted} reason={walk.counts.reason}"
        ledger.fault(walk.case, f"{verb}, against the prediction", want=walk.want.path, got=seen)
    if walk.counts.drafter is not None:
        ledger.compare(walk.case, "the drafter named", walk.want.drafter, walk.counts.drafter)


def _count_seed(start_id: str, seed_walks: list[Walk], ledger: Ledger) -> None:
    """Hold the number of engaged seed requests against the number that the seed plan is made for."""
    if len(seed_walks) != NUM_SEED_REQUESTS:
        return
    want = NUM_SEED_ENGAGED if speculates(seed_walks[0].case) else 0
    got = sum(path_taken(walk.counts) == "spec" for walk in seed_walks)
    if got != want:
        ledger.fault_of_start(start_id, f"{got} of the {NUM_SEED_REQUESTS} seed requests engaged", want=want, got=got)


def path_taken(counts: Counts) -> str:
    """Return the path by its counts: what claims to be plain and made verify rounds was speculative."""
    return "spec" if counts.path == "spec" or counts.rounds else "plain"


def _judge_abstained(evidence: Evidence, ledger: Ledger) -> None:
    for case, reference in evidence.compared("abstained"):
        got, want = ledger.reply(case), ledger.reply(reference)
        prediction, counts = evidence.prediction(case), case.answer.counts
        if got is None or want is None:
            continue
        if prediction is None or prediction.path != "plain" or prediction.reason is None:
            ledger.blind(case.start.id, f"{case.request.id}: nothing forbids to speculate on it", want="a reason", got=prediction)
            continue
        ledger.examine(case.start.id)
        if counts is None:
            ledger.fault(case, "no counts came with the answer", want="counts", got=None)
            continue
        ledger.compare(case, "the path", "plain", path_taken(counts))
        ledger.compare(case, "the reason", prediction.reason, counts.reason)
        is_equal = equal_replies(ledger, case, want, got, _THAN_PLAIN)
        if is_equal and ledger.compare(case, f"logprobs{_THAN_PLAIN}", want.logprobs, got.logprobs):
            compare_dumps(evidence, ledger, case, reference)


def _judge_drafts_made(evidence: Evidence, ledger: Ledger) -> None:
    for walk in walks(evidence, ledger, "drafts-made", _promises_drafts):
        counts = walk.counts
        if walk.want.rounds == ():
            ledger.blind(walk.case.start.id, f"{walk.case.request.id}: it was built to hit, and the oracle finds no match in it")
        elif counts.drafted == 0:
            said = f"drafted=0 rounds={counts.rounds} plain={counts.plain} reason={counts.reason}"
            ledger.fault(walk.case, f"a reply of {walk.want.tokens} tokens made no draft", want="drafted > 0", got=said)
    _judge_unpredicted(evidence, ledger)
    for case in evidence.cases("drafts-made"):
        if case.facts.expect == "not-engaged" and ledger.reply(case) is not None and case.answer.counts is not None:
            ledger.examine(case.start.id)
            ledger.compare(case, "drafts of an arm that is not to engage", 0, case.answer.counts.drafted)


def _judge_unpredicted(evidence: Evidence, ledger: Ledger) -> None:
    """Of a drafter that no oracle knows: on the prompts built to hit it drafts, and lands some drafts."""
    for start_id, cases in starts_of(evidence, "drafts-made").items():
        if not lacked_by_arm(Need.PREDICTIONS, cases[0].facts, evidence.declared):
            continue
        counts = [case.answer.counts for case in cases if ledger.reply(case) is not None and case.answer.counts is not None]
        for _ in counts:
            ledger.examine(start_id)
        for what, total in (("drafted", sum(one.drafted for one in counts)), ("accepted", sum(one.accepted for one in counts))):
            if not total:
                message = f"{what} nothing in {len(counts)} replies, prompts built to hit among them"
                ledger.fault_of_start(start_id, message, want=f"{what} > 0", got=0)


def _promises_drafts(case: Case, want: Prediction) -> bool:
    """Whether drafts are due: on each engaged reply of two tokens or more of a pack arm, and where a prompt was built to hit."""
    is_due = case.start.pack is not None or "hit" in case.request.roles
    return is_due and want.path == "spec" and want.tokens > 1 and want.reason != "no-taps"


def _judge_hit_miss_decoy(evidence: Evidence, ledger: Ledger) -> None:
    asked: dict[tuple[str, str], set[str]] = defaultdict(set)  # start and oracle -> roles; each pack has a start and one role
    for case, reference in evidence.compared("hit-miss-decoy"):
        if case.facts.oracle not in _ROLES_OF:
            continue
        roles = set(case.request.roles) & _AS_ROLE.keys()
        asked["" if case.start.pack else case.start.id, case.facts.oracle] |= roles
        if ledger.reply(case) is None:
            continue
        counts, plain = case.answer.counts, reference.answer.counts
        if counts is None or plain is None:
            ledger.fault(case, "no counts came with the answer", want="counts on this arm and on plain", got=None)
            continue
        ledger.examine(case.start.id)
        for role in sorted(roles):
            _compare_role(role, case, counts, plain, ledger)
    for (start_id, oracle), roles in asked.items():
        wanted = _ROLES_OF[oracle]
        for role in sorted(wanted - roles):
            of_whom = "" if start_id else " of a pack"
            ledger.blind(start_id, f"the plan asks no {role} prompt{of_whom}", want=sorted(wanted), got=sorted(roles))


def _compare_role(role: str, case: Case, counts: Counts, plain: Counts, ledger: Ledger) -> None:
    want, holds = _AS_ROLE[role]
    passes, plain_passes = counts.num_passes, plain.num_passes
    if passes is None or plain_passes is None:
        ledger.fault(case, "its passes are not counted", want="rounds and plain", got=counts_of(counts))
    elif not holds(counts, passes, plain_passes):
        seen = f"drafted={counts.drafted} accepted={counts.accepted} passes={passes}, plain's passes={plain_passes}"
        ledger.fault(case, f"a {role} prompt did not go as one", want=want, got=seen)


_AS_ROLE: Mapping[str, tuple[str, Callable[[Counts, int, int], bool]]] = MappingProxyType(
    {
        "hit": ("accepted > 0, fewer passes than plain", lambda got, passes, plain: got.accepted > 0 and passes < plain),
        "miss": ("drafted = 0, as many passes as plain", lambda got, passes, plain: got.drafted == 0 and passes == plain),
        "decoy": ("drafted > 0, accepted = 0", lambda got, _passes, _plain: got.drafted > 0 and got.accepted == 0),
    }
)

_ROLES_OF: Mapping[str, frozenset[str]] = MappingProxyType(
    {LOOKUP: frozenset(_AS_ROLE), DFLASH: frozenset({"hit", "decoy"})}  # a pack always drafts, so that it has no miss
)

CHECKS: tuple[Check, ...] = (
    Check(
        "engaged-exactly",
        Verdict.NOT_ENGAGED,
        "The requests that took the speculative path are exactly the predicted ones, in both directions.",
        _judge_engaged_exactly,
        needs=(Need.COUNTS, Need.PREDICTIONS),
    ),
    Check(
        "abstained",
        Verdict.WRONG_PATH,
        "A request that may not speculate took the plain loop, says why, and equals the plain arm's byte for byte.",
        _judge_abstained,
        needs=(Need.PATHS,),
    ),
    Check(
        "drafts-made",
        Verdict.NOT_ENGAGED,
        "An engaged request that promises drafts made some: each pack reply of two tokens or more, each prompt built to hit.",
        _judge_drafts_made,
        needs=(Need.COUNTS,),
    ),
    Check(
        "hit-miss-decoy",
        Verdict.NOT_ENGAGED,
        "On a hit drafts land in fewer passes than plain's, on a miss lookup proposes nothing, on a decoy nothing lands; packs alike.",
        _judge_hit_miss_decoy,
        needs=(Need.PATHS,),
    ),
)
