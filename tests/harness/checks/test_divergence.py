"""The divergence of a finding: its place, its path and its gap, told from a recorded run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.checks.divergence import Place, with_divergences
from harness.checks.evidence import Evidence
from harness.checks.judge import judge
from harness.checks.registry import ALL_CHECKS
from harness.checks.spots import spots_of
from harness.records.divergence import Divergence, Gap, GapSource, Side, Spot, Unit
from harness.records.finding import Finding
from harness.records.plan import Tier
from harness.records.recording import Round, Run
from tests.harness.checks import families
from tests.harness.checks.ideal import Fault, altered, fixture
from tests.harness.checks.replying import answered, plan_of, run_of

HIT = fixture().stream("hit-1")
GAP = Gap(GapSource.FORWARD, "1", "2", 0.5, 0.75)


def explained(run: Run, gaps: Sequence[Gap | None] | None = None) -> tuple[list[Finding], list[Place]]:
    """Judge a run and tell its divergences; return the findings, and the places whose gap was asked for."""
    asked: list[Place] = []

    def answer(places: Sequence[Place]) -> Sequence[Gap | None]:
        asked.extend(places)
        return gaps if gaps is not None else [GAP] * len(places)

    judgement = judge(run, ALL_CHECKS)
    return list(with_divergences(Evidence(run), judgement, answer).findings), asked


def with_wrong_token(index: int) -> Run:
    """A lookup reply with one token changed, text and all."""
    run = run_of("same-reply")
    ids = (*HIT.reply_ids[:index], 89 - HIT.reply_ids[index], *HIT.reply_ids[index + 1 :])
    text = "".join(chr(33 + token) for token in ids)
    return altered(run, "lookup", "hit-1/24", reply={"ids": ids, "text": text})


def only(found: list[Finding]) -> Divergence:
    (finding,) = found
    assert finding.divergence is not None
    return finding.divergence


def test_a_changed_token_is_told_with_both_sides_what_they_share_and_the_gap_at_its_state() -> None:
    found, asked = explained(with_wrong_token(7))
    got = only(found)
    wrong = 89 - HIT.reply_ids[7]
    assert (got.unit, got.index, got.shared_ids, got.shared_text) == (Unit.TOKENS, 7, HIT.reply_ids[:7], HIT.reply[:7])
    assert got.want == Side(HIT.reply_ids[7:15], HIT.reply[7:], 24)
    assert got.got == Side((wrong, *HIT.reply_ids[8:15]), chr(33 + wrong) + HIT.reply[8:], 24)
    assert (got.gap, got.gap_unknown) == (GAP, "")
    assert asked == [("tiny", HIT.prompt_ids + HIT.reply_ids[:7], wrong)]


def test_a_place_that_no_forward_was_computed_for_says_so() -> None:
    got = only(explained(with_wrong_token(7), [None])[0])
    assert (got.gap, got.gap_unknown) == (None, "no forward was computed there")


def test_an_accepted_wrong_draft_is_placed_in_its_round_beside_the_predicted_one() -> None:
    run = answered(plan_of("same-reply", Tier.MUTATION), Fault.FIRST_UNSEEN)
    (got, *_) = [one.divergence for one in explained(run)[0] if (one.start, one.request) == ("lookup", "decoy-1/24")]
    case = Evidence(run).case("lookup", "decoy-1/24")
    assert case is not None
    assert case.answer.rounds is not None
    assert got is not None
    assert got.spot == Spot(0, 1)
    assert got.taken == case.answer.rounds[0]
    assert got.taken.drafted_ids[0] == got.got.ids[0]
    assert (got.predicted_spot, got.predicted_unknown) == (Spot(1, 0), "")


def test_a_reply_that_goes_on_behind_its_stop_had_ended_there_by_the_prediction() -> None:
    request = next(one for one in run_of("stop-cut").plan.start("lookup").requests if one.body and "stop" in one.body)
    run = run_of("stop-cut")
    whole = next(stream for stream in fixture().streams if request.id.startswith(stream.name + "/"))
    run = altered(run, "lookup", request.id, reply={"ids": whole.reply_ids, "text": whole.reply, "finish_reason": "length"})
    (got, *_) = [one.divergence for one in explained(run)[0] if one.request == request.id]
    assert got is not None
    assert got.want.ids == ()
    assert got.index == got.want.length < got.got.length == 24
    assert got.predicted_unknown == "the reply had ended there"


def test_a_sampled_reply_has_no_gap_as_the_row_alone_does_not_decide() -> None:
    run = run_of("same-sampled-reply")
    (request, *_) = [one for one in run.plan.start("lookup").requests if not one.is_greedy]
    case = Evidence(run).case("lookup", request.id)
    assert case is not None
    assert case.answer.reply is not None
    assert case.answer.reply.ids is not None
    ids = (*case.answer.reply.ids[:3], 93, *case.answer.reply.ids[4:])
    found, asked = explained(altered(run, "lookup", request.id, reply={"ids": ids}))
    (got, *_) = [one.divergence for one in found if one.divergence is not None]
    assert got.gap_unknown == "the model's own row does not decide there: sampled"
    assert asked == []


def test_texts_that_differ_where_the_ids_do_not_are_told_in_characters() -> None:
    text = HIT.reply[:5] + "?" + HIT.reply[6:]
    got = only(explained(altered(run_of("same-reply"), "lookup", "hit-1/24", reply={"text": text}))[0])
    assert (got.unit, got.index, got.want.text, got.got.text) == (Unit.CHARACTERS, 5, HIT.reply[5:], text[5:])
    assert (got.gap_unknown, got.spot_unknown, got.predicted_unknown) == ("texts alone tell no token",) * 3


def test_logprobs_of_a_plain_answer_that_goes_the_same_way_tell_the_gap() -> None:
    run = with_wrong_token(2)
    scores = {f"a{at}": -float(at) for at in range(1, 4)}
    column = {
        "tokens": list(HIT.reply),
        "token_logprobs": [-0.5] * 24,
        "top_logprobs": [{**scores, "best": -0.25} for _ in range(24)],
        "text_offset": list(range(24)),
    }
    found, asked = explained(altered(run, "plain", "hit-1/24", reply={"logprobs": column}))
    assert only(found).gap == Gap(GapSource.LOGPROBS, "best", "a1", 0.75)
    assert asked == []


@pytest.mark.parametrize("rounds", [None, (Round((1, 2), 2),)], ids=["no-list", "a-list-that-does-not-fit"])
def test_a_place_without_a_round_says_why(rounds: tuple[Round, ...] | None) -> None:
    run = altered(with_wrong_token(7), "lookup", "hit-1/24", rounds=rounds)
    judgement = judge(run, [check for check in ALL_CHECKS if check.id == "same-reply"])
    (got,) = [one.divergence for one in with_divergences(Evidence(run), judgement).findings if one.divergence]
    want = "the answer lists no rounds" if rounds is None else "its rounds do not fit its reply"
    assert (got.spot, got.spot_unknown, got.taken) == (None, want, None)


def test_a_token_that_plain_steps_leave_open_is_placed_where_the_predicted_path_leads() -> None:
    run = run_of("same-reply", Tier.GATE)
    stream = fixture().stream("main-1")
    case = Evidence(run).case("lookup", "main-1/24")
    assert case is not None
    assert case.answer.counts is not None
    spots = [spots_of(stream.reply_ids, case.answer.rounds or (), case.answer.counts.plain, index) for index in range(24)]
    index = next(index for index, possible in enumerate(spots) if len(possible) > 1)
    ids = (*stream.reply_ids[:index], 93, *stream.reply_ids[index + 1 :])
    got = only(explained(altered(run, "lookup", "main-1/24", reply={"ids": ids}))[0])
    assert got.spot in spots[index]
    assert (got.spot, got.spot_unknown) == (got.predicted_spot, "")


def test_findings_on_no_reply_have_no_divergence() -> None:
    found, _ = explained(families.run_of("exact-drafts", Fault.EARLIEST))
    assert found
    assert {one.divergence for one in found} == {None}
