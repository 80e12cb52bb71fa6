"""Same-reply on a device: everything equals the device's plain arm, and greedy ids equal the host's."""

from __future__ import annotations

import msgspec

from harness.records.finding import Verdict
from harness.records.plan import Request, Start, Tier
from harness.records.recording import Answer, Run
from tests.harness.checks.replying import blind, changed, findings, places, result, run_of, with_reply, without

CHECK = "same-reply"
DEVICE = ("npu/plain", "npu/lookup", "npu/draft", "npu/draft-2")
WHOLE = "hit-1/24"


def clean() -> Run:
    return run_of(CHECK, Tier.GATE)


def on(start_ids: tuple[str, ...], **fields: object) -> Run:
    """Return the clean run with fields of one reply changed on some starts."""

    def change(start: Start, request: Request, answer: Answer) -> Answer:
        return with_reply(answer, **fields) if start.id in start_ids and request.id == WHOLE else answer

    return changed(clean(), change)


def ids_of(run: Run, start_id: str) -> tuple[int, ...]:
    (recording,) = (one for one in run.recordings if one.start.id == start_id)
    answer = recording.answer(WHOLE)
    assert answer is not None
    assert answer.reply is not None
    assert answer.reply.ids is not None
    return answer.reply.ids


def test_device_arms_are_examined_and_a_right_engine_has_no_finding() -> None:
    got = result(CHECK, clean())
    assert got.findings == ()
    assert set(DEVICE) <= set(got.examined)


def test_a_token_that_all_device_arms_say_and_the_host_does_not_is_found_on_each_of_them() -> None:
    ids = ids_of(clean(), "plain")
    wrong = (*ids[:5], ids[5] + 1, *ids[6:])
    found = findings(CHECK, on(DEVICE, ids=wrong))
    assert places(found) == [(name, WHOLE) for name in DEVICE]
    assert {(one.message, one.first_difference, one.verdict) for one in found} == {
        ("ids of the plain arm on the host differs", 5, Verdict.MISMATCH)
    }


def test_a_text_that_all_device_arms_spell_their_own_way_is_theirs_alone() -> None:
    assert findings(CHECK, on(DEVICE, text="x" * 24)) == ()


def test_a_drafter_on_the_device_is_held_to_the_device_s_plain_arm_in_everything() -> None:
    found = findings(CHECK, on(("npu/draft",), text="x" * 24))
    assert [(one.start, one.message) for one in found] == [("npu/draft", "text differs")]


def test_a_greedy_request_that_the_host_was_not_asked_is_blind() -> None:
    run = clean()
    starts = tuple(
        msgspec.structs.replace(one, requests=tuple(r for r in one.requests if r.id != WHOLE or one.id.startswith("npu/")))
        for one in run.plan.starts
    )
    run = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, starts=starts))
    wanted = f"plain is not asked {WHOLE}, so nothing is compared"
    assert [said for said in blind(findings(CHECK, run)) if said == wanted] == [wanted] * len(DEVICE)


def test_a_host_arm_has_no_host_to_be_compared_with() -> None:
    run = without(clean(), lambda request: request.id == WHOLE)
    assert findings(CHECK, run) == ()
