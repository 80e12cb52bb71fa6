"""Near-ties and faults on a small engine whose scores move with the shape of a batch: each is told, and only near-ties are excused."""

from __future__ import annotations

import msgspec
import pytest

from harness.checks.judge import judge
from harness.checks.registry import ALL_CHECKS
from harness.plans.near_ties import CHECK, follow_up
from harness.records.finding import Judgement, Verdict
from harness.records.known import KnownFault
from harness.records.plan import Request
from harness.records.recording import Answer, ArmFacts, Declared, Run
from tests.harness.checks.statistical.rounding import BUDGET, DECLARED, ROUNDING, Engine, Fault, Tie, asked, plan_of

AT = 5
SMALL = Tie(AT, ROUNDING / 4)  # well within what the shape of a batch moves
GREEDY = asked()


def judged(run: Run, **declared: object) -> Judgement:
    run = msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, **declared))
    return judge(run, ALL_CHECKS)


def run_of(request: Request = GREEDY, tie: Tie | None = SMALL, *faults: Fault, declared: Declared = DECLARED) -> Run:
    return Engine(tie, frozenset(faults)).run(plan_of(request), declared)


def kinds(judgement: Judgement) -> list[tuple[str, str, Verdict]]:
    return [
        (one.start, one.message.partition(":")[0].partition(",")[0], one.verdict)
        for one in judgement.counted
        if one.check == CHECK
    ]


def notes(judgement: Judgement) -> tuple[str, ...]:
    return next(result.notes for result in judgement.results if result.check == CHECK)


def test_equal_replies_call_for_nothing_further_and_are_counted_as_equal() -> None:
    plan = plan_of(GREEDY)
    run = run_of(GREEDY, None)
    assert run.plan == plan
    got = judged(run)
    assert (got.verdict, got.counted) == (Verdict.LOSSLESS, ())
    assert notes(got) == (
        "4 replies compared with plain's, 0 of them pinned faults: 4 EQUAL, 0 NEAR-TIE, 0 FAULT, 0 VOID, 0 UNSTABLE; budget 0 NEAR-TIE",
    )


def test_a_planted_tie_that_flips_is_a_near_tie_with_its_sizes_and_fails_the_run_by_the_budget_of_none() -> None:
    got = judged(run_of())
    assert got.verdict is Verdict.MISMATCH
    assert kinds(got) == [("lookup", "NEAR-TIE", Verdict.MISMATCH)]
    assert [one.check for one in got.counted] == [CHECK]  # what same-reply found there is marked, and is no second finding
    _, line = notes(got)
    assert line.startswith("NEAR-TIE lookup: hit-1/18 at token 5: ")
    assert "gap 0.00025, larger than 0 of plain's own" in line
    assert f"{BUDGET - 1} of {BUDGET} tokens at plain's own choice, 1 below by 0.00025 at most" in line


@pytest.mark.parametrize(("budget", "verdict"), [(0, Verdict.MISMATCH), (1, Verdict.LOSSLESS)])
def test_a_near_tie_within_the_budget_is_in_the_report_and_does_not_count(budget: int, verdict: Verdict) -> None:
    got = judged(run_of(), near_tie_budget=budget)
    assert got.verdict is verdict
    assert len(notes(got)) == 2
    assert [one.known for one in got.findings if one.check == "same-reply"] == ["NEAR-TIE"]


def test_a_certified_subject_is_never_excused_and_lists_the_law_as_not_tested() -> None:
    got = judged(run_of(), certified=True)
    assert got.not_tested[CHECK] == "its replies are certified: whatever differs is a fault"
    assert [(one.check, one.known) for one in got.counted] == [("same-reply", "")]


@pytest.mark.parametrize(
    ("tie", "faults", "why"),
    [
        (Tie(AT, 20 * ROUNDING, flips=False), [Fault.RUNNER_UP], "plain's choice leads by 0.02"),
        (Tie(AT, 0.0, flips=False), [Fault.RUNNER_UP], "plain's two best scores are equal to the bit"),
        (Tie(AT, 0.5, flips=False), [Fault.RUNNER_UP], "plain does not say"),
        (None, [Fault.DROPPED], "1 of plain's tokens dropped"),
        (None, [Fault.DOUBLED], "1 tokens doubled"),
        (None, [Fault.FOREIGN], "text of another request"),
        (None, [Fault.WRONG_ROW], "plain does not say"),
        (Tie(AT, ROUNDING / 4, flips=False), [Fault.STALE], "another reply on a fresh server: it hangs on what was asked before"),
    ],
    ids=lambda value: getattr(value, "name", "") or str(value)[:30],
)
def test_a_fault_is_told_from_a_near_tie_and_why(tie: Tie | None, faults: list[Fault], why: str) -> None:
    got = judged(run_of(GREEDY, tie, *faults), near_tie_budget=9)
    assert kinds(got) == [("lookup", "FAULT", Verdict.MISMATCH)]
    (line,) = notes(got)[1:]
    assert line.partition(f"token {AT}: ")[2].startswith(why) or f": {why}" in line
    assert [one.known for one in got.findings if one.check == "same-reply"] == [""]


def test_a_reply_that_is_cut_short_is_a_fault_without_a_further_start() -> None:
    run = run_of(GREEDY, None, Fault.CUT)
    assert len(run.plan.starts) == 2
    got = judged(run, near_tie_budget=9)
    assert kinds(got) == [("lookup", "FAULT", Verdict.MISMATCH)]
    assert "no token was chosen otherwise" in notes(got)[1]


def test_an_arm_that_differs_from_process_to_process_is_unstable_and_the_run_inconclusive() -> None:
    got = judged(run_of(GREEDY, Tie(AT, ROUNDING / 4, flips=False), Fault.RANDOM))
    assert kinds(got) == [("lookup", "UNSTABLE", Verdict.INCONCLUSIVE)]
    assert got.findings[-1].message == "UNSTABLE: the drafting arm answers otherwise from one fresh server to the next"


def test_a_difference_where_nothing_was_drafted_is_void_and_the_run_blind() -> None:
    got = judged(run_of(GREEDY, SMALL, Fault.UNDRAFTED))
    assert kinds(got) == [("lookup", "VOID", Verdict.BLIND)]


def test_a_run_whose_further_starts_are_not_there_is_void() -> None:
    run = run_of()
    bare = msgspec.structs.replace(run, plan=plan_of(GREEDY), recordings=run.recordings[:2])
    assert kinds(judged(bare)) == [("lookup", "VOID", Verdict.BLIND)]


@pytest.mark.parametrize(("seed", "gap"), [(17, "gap 6.1e-05"), (258, "gap 0.00024")])
def test_a_seeded_draw_at_the_border_of_two_tokens_is_a_near_tie_by_the_nudge_that_moves_it(seed: int, gap: str) -> None:
    got = judged(run_of(asked(temperature=0.8, top_k=2, seed=seed), None))
    assert kinds(got) == [("lookup", "NEAR-TIE", Verdict.MISMATCH)]
    assert gap in notes(got)[1]
    assert f"{BUDGET} of {BUDGET} tokens within plain's reach" in notes(got)[1]


@pytest.mark.parametrize(("seed", "gap"), [(9, "4 for plain's 3, gap 0.00098"), (77, "10 for plain's 11, gap 6.1e-05")])
def test_a_draw_from_all_ids_at_a_border_is_a_near_tie_by_the_nudge_of_all_scores_that_moves_it(seed: int, gap: str) -> None:
    got = judged(run_of(asked(temperature=0.8, seed=seed), None))
    assert kinds(got) == [("lookup", "NEAR-TIE", Verdict.MISMATCH)]
    assert gap in notes(got)[1]
    assert notes(got)[1].endswith("not teacher-forced: what may be chosen there is not known")


def test_a_draw_from_all_ids_away_from_any_border_is_a_fault() -> None:
    got = judged(run_of(asked(temperature=0.8, seed=3), None, Fault.WRONG_ROW), near_tie_budget=9)
    assert kinds(got) == [("lookup", "FAULT", Verdict.MISMATCH)]


def test_a_seeded_draw_away_from_any_border_is_a_fault() -> None:
    got = judged(run_of(asked(temperature=0.8, top_k=2, seed=3), None, Fault.WRONG_ROW), near_tie_budget=9)
    assert kinds(got) == [("lookup", "FAULT", Verdict.MISMATCH)]


def test_a_pinned_fault_is_left_to_its_pin() -> None:
    fault = KnownFault("drops", "it drops a token", "https://example.org", "same-reply", ("lookup",), message="^ids differs")
    got = judged(run_of(GREEDY, None, Fault.DROPPED), known_faults=(fault,))
    assert kinds(got) == []
    assert "4 replies compared with plain's, 1 of them pinned faults: 3 EQUAL" in notes(got)[0]


def test_a_drafter_that_learns_is_asked_again_behind_all_that_it_had_seen() -> None:
    learning = msgspec.structs.replace(DECLARED, arms={"plain": ArmFacts(), "lookup": ArmFacts("ngram", remembers=True)})
    run = run_of(declared=learning)
    (start,) = [one for one in run.plan.starts if one.id == "near-tie-0/drafting-2"]
    assert [one.prompt_ids for one in start.requests] == [one.prompt_ids for one in plan_of(GREEDY).starts[1].requests]
    assert kinds(judged(run)) == [("lookup", "NEAR-TIE", Verdict.MISMATCH)]


def test_no_further_start_is_read_by_any_other_check_or_followed_in_its_turn() -> None:
    run = run_of()
    further = [start for start in run.plan.starts if start.id.startswith("near-tie-")]
    assert len(further) == 5
    assert all(request.checks == () and start.reference is None for start in further for request in start.requests)
    assert follow_up(run.plan, run.recordings, DECLARED) == tuple(further)


def test_sampled_replies_of_an_arm_that_takes_other_random_numbers_are_not_compared() -> None:
    arms = {"plain": ArmFacts(), "lookup": ArmFacts("ngram", samples_alike=False)}
    declared = msgspec.structs.replace(DECLARED, arms=arms)
    got = judged(run_of(asked(temperature=0.8, top_k=2, seed=17), None, declared=declared))
    assert notes(got)[0].startswith("3 replies compared with plain's, 0 of them pinned faults: 3 EQUAL")


def passing_by(run: Run, index: int, want: int, got: int) -> Run:
    """Return a run whose nudged draws never say the other token: those by all scores go past it, those by two stay."""

    def otherwise(request: Request, answer: Answer) -> Answer:
        assert answer.reply is not None and answer.reply.ids is not None
        if request.role not in ("nudged", "swept") or answer.reply.ids[index] != got:
            return answer
        said = want if request.role == "nudged" else got + (1 if got > want else -1)
        ids = (*answer.reply.ids[:index], said, *answer.reply.ids[index + 1 :])
        return msgspec.structs.replace(answer, reply=msgspec.structs.replace(answer.reply, ids=ids))

    recordings = tuple(
        msgspec.structs.replace(one, answers=tuple(map(otherwise, one.start.requests, one.answers))) for one in run.recordings
    )
    return msgspec.structs.replace(run, recordings=recordings)


@pytest.mark.parametrize(("seed", "index", "want", "got"), [(9, 1, 3, 4), (77, 17, 11, 10)])
def test_a_nudge_of_all_scores_that_goes_past_the_other_token_came_by_it(seed: int, index: int, want: int, got: int) -> None:
    run = run_of(asked(temperature=0.8, seed=seed), None)
    assert kinds(judged(passing_by(run, index, want, got))) == [("lookup", "NEAR-TIE", Verdict.MISMATCH)]
