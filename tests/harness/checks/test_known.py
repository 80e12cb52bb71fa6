"""Known faults: a pinned finding does not count, one outside of its condition does, and one that is gone fails the run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checks.check import Check
from harness.checks.judge import judge
from harness.checks.known import CHECKS
from harness.records.finding import Finding, Judgement, Verdict
from harness.records.known import KnownFault
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, ArmFacts, Declared, Recording, Run, Trace

FAULT = KnownFault(
    id="cut-at-the-end",
    title="a reply is a shorter beginning",
    link="https://example.org/1",
    check="context-end",
    arms=("simple", "model"),
    starts="context-*",
    fields=("stop",),
    message="^ids differs",
    is_cut_short=True,
    leaves=("accounting",),
)
WANT = (1, 2, 3)


def request(name: str, *checks: str, **fields: Any) -> Request:
    return Request(name, checks or ("context-end",), body={"prompt": "p", **fields}, prompt_ids=(1,))


def run_of(*starts: Start, faults: tuple[KnownFault, ...] = (FAULT,)) -> Run:
    recordings = tuple(
        Recording("s", start, tuple(Answer(one.id, 200) for one in start.requests), Trace(True), (), None) for start in starts
    )
    checks = ("context-end", "accounting", "known-faults")
    arms = {name: ArmFacts() for name in ("plain", "simple", "model")}
    return Run(Plan(Tier.GATE, "tiny@1", starts, checks), "s", Declared(arms, known_faults=faults), recordings)


def start(name: str, arm: str, *requests: Request) -> Start:
    return Start(name, arm, "tiny", requests or (request("r", stop=["a"]),))


def judged(run: Run, *found: Finding) -> Judgement:
    """Judge a run by checks that find exactly these."""

    def finder(check_id: str) -> Check:
        def find(evidence: Any, ledger: Any) -> None:
            for one in evidence.run.plan.starts:
                ledger.examine(one.id)
            ledger._findings += [one for one in found if one.check == check_id]

        return Check(check_id, Verdict.MISMATCH, "A law.", find)

    return judge(run, [finder("context-end"), finder("accounting"), *CHECKS])


def finding(check: str = "context-end", start_id: str = "context-36/simple", request_id: str = "r", **changes: Any) -> Finding:
    one = Finding(check, Verdict.MISMATCH, start_id, request_id, "ids differs", want=WANT, got=(1, 2))
    return msgspec.structs.replace(one, **changes)


BOTH = (start("context-36/simple", "simple"), start("context-36/model", "model"))
FOUND = (finding(), finding(start_id="context-36/model"))


def test_pinned_faults_that_are_there_on_each_arm_leave_the_run_lossless() -> None:
    got = judged(run_of(*BOTH), *FOUND)
    assert (got.verdict, got.counted) == (Verdict.LOSSLESS, ())
    assert [one.known for one in got.findings] == ["cut-at-the-end"] * 2
    (known,) = [result for result in got.results if result.check == "known-faults"]
    assert known.examined == {"context-36/simple": 1, "context-36/model": 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"message": "text differs"},
        {"got": (1, 3)},
        {"got": WANT},
        {"got": (1, 2, 3, 4)},
        {"want": None},
        {"check": "accounting", "request": "other"},
    ],
    ids=str,
)
def test_a_finding_outside_of_the_condition_counts(changes: dict[str, Any]) -> None:
    odd = finding(**changes)
    got = judged(run_of(*BOTH), *FOUND, odd)
    assert (got.verdict, got.counted) == (Verdict.MISMATCH, (odd,))


def test_a_finding_on_another_arm_at_another_start_or_without_the_field_counts() -> None:
    starts = (
        *BOTH,
        start("context-36/plain", "plain"),
        start("simple", "simple"),
        start("context-9/simple", "simple", request("r")),
    )
    odd = [finding(start_id=name) for name in ("context-36/plain", "simple", "context-9/simple")]
    assert judged(run_of(*starts), *FOUND, *odd).counted == tuple(odd)


def test_a_finding_that_meets_two_conditions_is_the_narrower_fault_and_two_at_one_request_are_each_its_own() -> None:
    wider = msgspec.structs.replace(FAULT, id="any-other", message="differs$", is_cut_short=False, leaves=())
    longer = finding(got=(1, 2, 3, 4))
    for faults in ((FAULT, wider), (wider, FAULT)):
        got = judged(run_of(*BOTH, faults=faults), *FOUND, longer)
        assert [one.known for one in got.findings] == ["cut-at-the-end", "cut-at-the-end", "any-other"]
        assert got.verdict is Verdict.LOSSLESS  # on each arm the wider one's condition is met too
    alike = msgspec.structs.replace(FAULT, id="alike")
    assert {one.known for one in judged(run_of(*BOTH, faults=(alike, FAULT)), *FOUND).findings} == {"alike"}


def test_what_follows_from_a_pinned_fault_at_the_same_request_does_not_count() -> None:
    follows = finding("accounting", message="tokens differ")
    got = judged(run_of(*BOTH), *FOUND, follows)
    assert (got.verdict, got.counted) == (Verdict.LOSSLESS, ())


def test_a_fault_that_is_gone_on_one_arm_fails_the_run_and_says_what_to_do() -> None:
    got = judged(run_of(*BOTH), FOUND[0])
    assert got.verdict is Verdict.KNOWN_GONE
    (gone,) = got.counted
    assert (gone.check, gone.start, gone.message) == (
        "known-faults",
        "context-36/model",
        "cut-at-the-end is gone on arm model: a reply is a shorter beginning; take it out of the description",
    )


def test_an_arm_that_shows_a_fault_at_times_is_never_without_it_and_its_findings_do_not_count() -> None:
    fault = msgspec.structs.replace(FAULT, arms=("simple",), at_times=("model",))
    assert judged(run_of(*BOTH, faults=(fault,)), FOUND[0]).verdict is Verdict.LOSSLESS
    assert judged(run_of(*BOTH, faults=(fault,)), *FOUND).counted == ()


@pytest.mark.parametrize(("before", "is_met"), [(4, True), (5, True), (3, False), (None, False)])
def test_a_fault_behind_a_long_request_is_due_only_where_one_as_long_came_before(before: int | None, is_met: bool) -> None:
    fault = msgspec.structs.replace(FAULT, arms=("simple",), is_behind_long=True)
    read = request("r", stop=["a"], max_tokens=4)
    earlier = () if before is None else (request("long", "accounting", max_tokens=before),)
    run = run_of(start("context-36/simple", "simple", *earlier, read), faults=(fault,))
    assert (FOUND[0] in judged(run, FOUND[0]).counted) is not is_met
    assert (Verdict.KNOWN_GONE in {one.verdict for one in judged(run).counted}) is is_met


def test_a_fault_is_not_missed_where_nothing_was_asked_that_could_show_it() -> None:
    run = run_of(BOTH[0], start("model", "model"), start("context-36/model", "model", request("r")))
    assert judged(run, FOUND[0]).verdict is Verdict.LOSSLESS


def test_a_run_that_asks_nothing_of_any_pinned_fault_is_blind() -> None:
    got = judged(run_of(start("plain", "plain")))
    assert [(one.check, one.verdict) for one in got.counted] == [("known-faults", Verdict.BLIND)]


def test_a_fault_of_a_start_as_a_whole_is_pinned_with_what_it_leaves_there() -> None:
    silent = msgspec.structs.replace(FAULT, message="^drafted nothing", is_cut_short=False, fields=(), leaves=("accounting",))
    whole = [finding(start_id=one.id, request_id="", message="drafted nothing in 2 replies", want="x", got=0) for one in BOTH]
    follows = finding("accounting", message="a canary")
    assert judged(run_of(*BOTH, faults=(silent,)), *whole, follows).counted == ()


def test_a_description_that_pins_nothing_has_nothing_to_test() -> None:
    got = judged(run_of(*BOTH, faults=()))
    assert (got.verdict, got.not_tested) == (Verdict.LOSSLESS, {"known-faults": "its description pins no fault"})
