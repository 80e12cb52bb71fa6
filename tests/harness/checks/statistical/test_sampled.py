"""The law on sampled distributions: right arms pass, a biased accept rule does not, and its controls make it blind where they must."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.checks.judge import judge
from harness.checks.statistical.sampled import BIAS, CHECKS, FALSE_ALARMS
from harness.plans.build import build_plan
from harness.plans.fit import fitted
from harness.plans.sampled import CHECK, PROMPTS, SIZES, SLICES
from harness.records.finding import CheckResult, Finding, Verdict
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, ArmFacts, Counts, Declared, Recording, Reply, Run, Trace
from harness.subjects.description import load_description
from tests.harness.checks.ideal import fixture

DECLARED = Declared(
    {"plain": ArmFacts(), "lookup": ArmFacts("ngram"), "draft": ArmFacts("model")},
    capabilities={"none": {}, "ngram": {"temperature": "engaged"}, "model": {"temperature": "engaged"}},
)
WEIGHTS = np.array([0.4, 0.3, 0.2, 0.1])
Say = Callable[[Start, Request, np.random.Generator], tuple[int, ...]]


def plan() -> Plan:
    return build_plan(fixture(), Tier.GATE, SLICES, [CHECK])


def right(_start: Start, request: Request, generator: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(one) for one in generator.choice(4, request.max_tokens, p=WEIGHTS))


def on(arm: str, other: Say) -> Say:
    """Say something else on one arm."""
    return lambda start, request, generator: (other if start.arm == arm else right)(start, request, generator)


def first_draft_unseen(start: Start, request: Request, generator: np.random.Generator) -> tuple[int, ...]:
    said = right(start, request, generator)
    return (said[0], 0, *said[2:])


def answered(say: Say = right, drafted: int = 4, accepted: int = 1, asked: Plan | None = None) -> Run:
    recordings = []
    for number, start in enumerate((asked or plan()).starts):
        generator = np.random.default_rng(number)
        answers = []
        for request in start.requests:
            ids = say(start, request, generator)
            counts = Counts("spec", None, None, drafted, accepted, None, len(ids), None, None, None)
            answers.append(Answer(request.id, 200, reply=Reply("", "", ids, "length", None, 3, len(ids)), counts=counts))
        recordings.append(Recording("s", start, tuple(answers), Trace(True), (), None))
    return Run(asked or plan(), "s", DECLARED, tuple(recordings))


def judged(run: Run) -> CheckResult:
    (result,) = judge(run, CHECKS).results
    return result


def places(findings: tuple[Finding, ...]) -> list[tuple[str, Verdict]]:
    return [(one.start, one.verdict) for one in findings]


def test_arms_that_sample_as_plain_does_pass_and_say_at_what_rate_and_by_how_many_samples() -> None:
    got = judged(answered())
    assert got.findings == ()
    assert set(got.examined) == {"sampled/plain", "sampled/lookup", "sampled/draft"}
    controls, *arms = got.notes
    assert controls.startswith(f"at most {FALSE_ALARMS:g} false alarms a run: each comparison at 0.00033, by 6000 deals")
    num_replies = len(PROMPTS[Tier.GATE]) * SIZES[Tier.GATE]
    assert f"sampled/plain gave {num_replies} + {num_replies} replies to {len(PROMPTS[Tier.GATE])} prompts" in controls
    assert f"for {BIAS:.0%} of its tokens is caught" in controls
    assert [note.partition(",")[0] for note in arms] == [
        f"sampled/{arm} gave {num_replies} replies" for arm in ("lookup", "draft")
    ]


def test_an_arm_whose_first_draft_is_taken_unseen_is_a_mismatch_there_and_nowhere_else() -> None:
    got = judged(answered(on("draft", first_draft_unseen)))
    assert places(got.findings) == [("sampled/draft", Verdict.MISMATCH)]
    assert "are not of the plain arm's distribution (p=0.00017)" in got.findings[0].message
    assert got.findings[0].message.endswith("token 1")


def test_replies_without_ids_are_compared_by_their_characters() -> None:
    def spelled(one: Answer) -> Answer:
        assert one.reply is not None
        assert one.reply.ids is not None
        return msgspec.structs.replace(one, reply=msgspec.structs.replace(one.reply, text="abcd"[one.reply.ids[1]], ids=None))

    run = answered(on("draft", first_draft_unseen))
    recordings = tuple(msgspec.structs.replace(one, answers=tuple(map(spelled, one.answers))) for one in run.recordings)
    declared = msgspec.structs.replace(DECLARED, returns_ids=False)
    got = judged(msgspec.structs.replace(run, recordings=recordings, declared=declared))
    assert places(got.findings) == [("sampled/draft", Verdict.MISMATCH)]


def test_plain_that_differs_from_itself_makes_the_law_blind() -> None:
    def drifting(start: Start, request: Request, generator: np.random.Generator) -> tuple[int, ...]:
        said = right(start, request, generator)
        return (0, 0, *said[2:]) if "first-half" in request.roles else said

    got = judged(answered(drifting))
    assert places(got.findings)[0] == ("sampled/plain", Verdict.BLIND)
    assert "plain differs from plain" in got.findings[0].message
    assert got.notes == ()


@pytest.mark.parametrize("say", [lambda *_: (0,) * 8, lambda *_: (0,) * 7 + (int(_[2].random() < 0.1),)])
def test_samples_that_are_too_sharp_for_the_fake_to_be_caught_make_the_law_blind(say: Say) -> None:
    findings = judged(answered(say)).findings
    assert places(findings)[0] == ("sampled/plain", Verdict.BLIND)
    assert findings[0].message.startswith(("nothing can be told of its samples", "a fake that takes the commonest token"))


def test_too_few_samples_for_the_fake_to_be_caught_make_the_law_blind() -> None:
    whole = plan()
    few = tuple(msgspec.structs.replace(one, requests=one.requests[::6]) for one in whole.starts)
    findings = judged(answered(asked=msgspec.structs.replace(whole, starts=few))).findings
    assert places(findings)[0] == ("sampled/plain", Verdict.BLIND)
    assert "is not caught: sample more" in findings[0].message


@pytest.mark.parametrize(("drafted", "accepted"), [(0, 0), (4, 0), (4, 4)])
def test_an_arm_whose_drafts_are_not_both_accepted_and_rejected_proves_nothing(drafted: int, accepted: int) -> None:
    got = judged(answered(drafted=drafted, accepted=accepted))
    assert places(got.findings) == [("sampled/lookup", Verdict.BLIND), ("sampled/draft", Verdict.BLIND)]


def test_a_sample_that_was_not_served_is_a_finding_and_nothing_is_compared() -> None:
    run = answered()
    broken = msgspec.structs.replace(
        run.recordings[1], answers=(Answer(run.recordings[1].answers[0].request_id, 500), *run.recordings[1].answers[1:])
    )
    got = judged(msgspec.structs.replace(run, recordings=(run.recordings[0], broken, *run.recordings[2:])))
    assert places(got.findings) == [("sampled/lookup", Verdict.MISMATCH)]


def test_no_seed_comes_twice_so_that_all_samples_are_independent() -> None:
    for tier in Tier:
        asked = build_plan(fixture(), tier, SLICES, [CHECK])
        by_role: dict[Any, set[int]] = {}
        for start in asked.starts:
            for request in start.requests:
                by_role.setdefault((request.role, request.prompt_ids), set()).add((request.body or {})["seed"])
        seeds = [seed for group in by_role.values() for seed in group]
        assert len(seeds) == len(set(seeds))


def test_a_subject_that_does_not_draft_while_sampling_is_listed_as_not_tested() -> None:
    got = fitted(plan(), load_description("forward-serve"), fixture(), {CHECK: CHECKS[0].needs})
    assert (got.starts, got.not_tested) == ((), {CHECK: "it does not speculate while sampling"})


def test_llamas_arms_that_draft_are_all_asked_and_the_one_that_never_does_is_not() -> None:
    got = fitted(plan(), load_description("llama-server"), fixture(), {CHECK: CHECKS[0].needs})
    arms = {start.arm for start in got.starts}
    assert arms >= {"plain", "ngram-simple", "ngram-mod", "draft-simple", "draft-ngram"}
    assert "draft-untyped" not in arms
    assert got.not_tested == {}  # it is no arm of this plan


def test_an_arm_whose_seeded_replies_are_not_plains_is_asked_too(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text('name = "other"\nextends = "llama-server"\narms.draft-simple.samples_alike = false\n')
    got = fitted(plan(), load_description(path), fixture(), {CHECK: CHECKS[0].needs})
    (start,) = [one for one in got.starts if one.arm == "draft-simple"]
    assert {one.checks for one in start.requests} == {(CHECK,)}
