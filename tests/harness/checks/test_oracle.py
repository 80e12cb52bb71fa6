"""The law on the oracle's own forward: on the ideal engine, and on a small model whose forward has a fault in all arms alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from harness.checks import oracle
from harness.checks.evidence import Evidence
from harness.checks.judge import apply
from harness.oracle.arithmetic64 import heads, linear, rms, rotated, softmax
from harness.oracle.container64 import Container64, Layer64
from harness.oracle.qwen3_64 import Ids, Qwen3
from harness.oracle.speakers import Speaker
from harness.oracle.tensors64 import Array
from harness.plans import oracle as oracle_plan
from harness.plans.build import build_plan
from harness.plans.requests import completion
from harness.plans.starts import PLAIN
from harness.records.expectation import Choice, Expectations, ModelFacts, Saying
from harness.records.finding import CheckResult, Finding, Verdict
from harness.records.fixture import Stream
from harness.records.plan import Plan, Tier
from harness.records.recording import Answer, ArmFacts, Declared, Recording, Reply, Run, Trace
from tests.harness.checks.ideal import altered, fixture
from tests.harness.checks.replying import answered
from tests.harness.oracle.test_qwen3_64 import random_container

(CHECK,) = oracle.CHECKS
TIERS = list(Tier)


def plan_of(tier: Tier) -> Plan:
    return build_plan(fixture(), tier, oracle_plan.SLICES, [CHECK.id])


def result(run: Run) -> CheckResult:
    return apply(CHECK, Evidence(run))


def findings(run: Run) -> tuple[Finding, ...]:
    return result(run).findings


def told(found: tuple[Finding, ...]) -> list[tuple[str, Verdict]]:
    return [(one.message, one.verdict) for one in found]


# the ideal engine


@pytest.mark.parametrize("tier", TIERS)
def test_a_right_engine_says_what_the_forward_says(tier: Tier) -> None:
    got = result(answered(plan_of(tier)))
    assert got.findings == ()
    asked = {start.id: len(start.requests) for start in plan_of(tier).starts}
    assert got.examined == asked


@pytest.mark.parametrize(
    ("request_id", "changes", "message"),
    [
        ("main-1/24", {"ids": (*fixture().stream("main-1").reply_ids[:-1], 89)}, "ids of the oracle's own forward differs"),
        ("main-1/24", {"text": "?"}, "text of the oracle's own forward differs"),
        ("main-1/5", {"finish_reason": "stop"}, "finish_reason of the oracle's own forward differs"),
    ],
)
def test_a_reply_that_all_arms_share_is_held_against_the_forward(
    request_id: str, changes: dict[str, object], message: str
) -> None:
    (got,) = findings(altered(answered(plan_of(Tier.GATE)), "plain", request_id, reply=changes))
    assert (got.request, got.message, got.verdict) == (request_id, message, Verdict.MISMATCH)


def test_the_first_wrong_token_is_named() -> None:
    ids = (*fixture().stream("hit-1").reply_ids[:9], 89, *fixture().stream("hit-1").reply_ids[10:])
    (got,) = findings(altered(answered(plan_of(Tier.MUTATION)), "plain", "hit-1/24", reply={"ids": ids}))
    assert got.first_difference == 9


def test_stops_and_end_tokens_are_applied_by_rule() -> None:
    plan = plan_of(Tier.GATE)
    run = answered(plan)
    ends = [answer.reply for recording in run.recordings for answer in recording.answers if answer.reply]
    assert {reply.stop_reason for reply in ends if isinstance(reply.stop_reason, str)}
    (ended,) = (recording for recording in run.recordings if recording.start.id == "end/plain")
    stopped = [answer for answer in ended.answers if answer.reply and isinstance(answer.reply.stop_reason, int)]
    longer = stopped[-1].reply
    assert longer is not None and longer.ids is not None
    one_more = {"ids": (*longer.ids, longer.stop_reason), "completion_tokens": len(longer.ids) + 1}
    (got,) = findings(altered(run, "end/plain", stopped[-1].request_id, reply=one_more))
    assert got.first_difference == len(longer.ids)


def test_a_run_without_expectations_is_blind() -> None:
    run = msgspec.structs.replace(answered(plan_of(Tier.MUTATION)), expectations=None)
    got = findings(run)
    assert {one.verdict for one in got} == {Verdict.BLIND}
    assert got[0].message == "main-1/24: no forward was computed for it to its end"


def test_a_reply_that_was_never_given_is_a_finding() -> None:
    got = findings(altered(answered(plan_of(Tier.MUTATION)), "plain", "hit-1/24", status=500, reply=None))
    assert [(one.request, one.verdict) for one in got] == [("hit-1/24", Verdict.MISMATCH)]


def with_choices(run: Run, change: Callable[[Choice], Choice]) -> Run:
    """Return the run with every choice of every saying changed."""
    assert run.expectations is not None
    sayings = tuple(
        msgspec.structs.replace(saying, choices=tuple(map(change, saying.choices))) for saying in run.expectations.sayings
    )
    return msgspec.structs.replace(run, expectations=msgspec.structs.replace(run.expectations, sayings=sayings))


def test_a_choice_that_is_too_near_is_blind() -> None:
    got = findings(with_choices(answered(plan_of(Tier.MUTATION)), lambda one: msgspec.structs.replace(one, margin=1e-5)))
    assert set(told(got)) >= {("main-1/24: a choice leads by too little to be certain", Verdict.BLIND)}
    assert {one.verdict for one in got} == {Verdict.BLIND}


def test_a_vocabulary_whose_padding_does_not_win_everywhere_is_blind() -> None:
    quiet = fixture().stream("main-1").reply_ids[3]
    run = answered(plan_of(Tier.MUTATION))
    got = findings(with_choices(run, lambda one: msgspec.structs.replace(one, is_behind_padding=one.token != quiet)))
    message = "a padded row of the vocabulary does not win at every choice, so the bound is not tested"
    assert told(got) == [(message, Verdict.BLIND)]


@pytest.mark.parametrize("tier", TIERS)
def test_a_stream_with_a_tie_is_asked_for_and_must_hold_one(tier: Tier) -> None:
    plan = plan_of(tier)
    assert {request.roles for request in plan.start("tie/plain").requests} == {(oracle.TIE,)}
    run = answered(plan)
    assert findings(run) == ()
    got = findings(with_choices(run, lambda one: msgspec.structs.replace(one, is_tie=False)))
    assert [(one.start, one.message, one.verdict) for one in got] == [
        ("tie/plain", "no choice of a reply with role tie is a tie", Verdict.BLIND)
    ]


def test_a_tie_that_goes_to_the_higher_id_is_found_on_its_container() -> None:
    run = answered(plan_of(Tier.MUTATION))
    (request,) = run.plan.start("tie/plain").requests
    reply = fixture().companion("tie").stream("tie-1").reply_ids
    ids = tuple({26: 90, 28: 92}.get(token, token) for token in reply)
    (found,) = findings(altered(run, "tie/plain", request.id, reply={"ids": ids}))
    assert (found.start, found.message) == ("tie/plain", "ids of the oracle's own forward differs")
    assert found.first_difference == min(reply.index(token) for token in (26, 28) if token in reply)


def test_the_mutation_slice_is_small_and_within_prescribed_replies() -> None:
    plan = plan_of(Tier.MUTATION)
    assert [(start.id, len(start.requests)) for start in plan.starts] == [("plain", 4), ("tie/plain", 1)]
    for tier in TIERS:
        for start in plan_of(tier).starts:
            longest = 64 if start.model == "text" else 40
            assert all(len(request.prompt_ids) + request.max_tokens <= longest for request in start.requests)


# a small model, with a fault in its own forward


class WithoutQNorm(Qwen3):
    """A forward that forgets to norm its queries."""

    def _attention(self, layer: Layer64, y: Array) -> Array:
        model, positions = self.container, np.arange(y.shape[1])
        q = rotated(heads(linear(y, layer.q), model.num_heads), positions, model.theta)
        k = rotated(rms(heads(linear(y, layer.k), model.num_kv_heads), layer.k_norm, model.eps), positions, model.theta)
        v = heads(linear(y, layer.v), model.num_kv_heads)
        q = q.reshape(*q.shape[:2], model.num_kv_heads, -1, model.head_dim)
        scores = np.einsum("bqhgd,bkhd->bhgqk", q, k) / np.sqrt(model.head_dim)
        weights = softmax(scores, positions[None, :] <= positions[:, None])
        return linear(np.einsum("bhgqk,bkhd->bqhgd", weights, v).reshape(*y.shape[:2], -1), layer.o)


PROMPTS = tuple(tuple(np.random.default_rng([3, at]).integers(0, 18, 6).tolist()) for at in range(6))
BUDGET = 12


def small_model() -> Container64:
    """A random model of 18 tokens: what it says most shares its row with another, and one of two padded rows always wins."""
    container = random_container(4)
    said = [
        choice.token
        for choices in Speaker(lambda: Qwen3(container)).say([(one, BUDGET) for one in PROMPTS])
        for choice in choices
    ]
    token = max(set(said), key=said.count)
    head = container.head.copy()
    head[(token + 5) % 18] = head[token]
    loud = np.random.default_rng(9).normal(0, 5e4, head.shape[1])
    head[18], head[19] = loud, -loud
    return dataclasses.replace(container, head=head)


SMALL = small_model()


def lowest(scores: Array) -> int:
    return int(np.argmax(scores[: SMALL.bound]))


def highest(scores: Array) -> int:
    bounded = scores[: SMALL.bound]
    return int(np.flatnonzero(bounded == bounded.max())[-1])


def unbounded(scores: Array) -> int:
    return int(np.argmax(scores))


def says(model: Qwen3, prompt: Ids, choose: Callable[[Array], int]) -> Ids:
    """What an engine of this forward and this choice says."""
    ids = list(prompt)
    for _ in range(BUDGET):
        (passed,) = model.forward([tuple(ids)])
        ids.append(choose(passed.scores[-1]))
    return tuple(ids[len(prompt) :])


def run_of(model: Qwen3, choose: Callable[[Array], int] = lowest) -> Run:
    """A run whose plain arm is this engine, with the expectations of the right forward."""
    requests = tuple(
        completion(Stream(f"small-{at}", "tie", prompt, ()), BUDGET, CHECK.id, role="tie") for at, prompt in enumerate(PROMPTS)
    )
    answers = []
    for request in requests:
        ids = says(model, request.prompt_ids, choose)
        text = "".join(chr(33 + token) for token in ids)
        answers.append(Answer(request.id, 200, reply=Reply("c", text, ids, "length", None, 6, BUDGET)))
    sayings = tuple(
        Saying("w", prompt, choices)
        for prompt, choices in zip(
            PROMPTS, Speaker(lambda: Qwen3(SMALL)).say([(prompt, BUDGET) for prompt in PROMPTS]), strict=True
        )
    )
    start = msgspec.structs.replace(PLAIN, requests=requests)
    expectations = Expectations("r", {PLAIN.model: ModelFacts("w", (185,), 64)}, {}, sayings, ())
    recording = Recording("toy", start, tuple(answers), Trace(True), (), None)
    declared = Declared(arms={"plain": ArmFacts()})
    return Run(Plan(Tier.GATE, "r", (start,), (CHECK.id,)), "toy", declared, (recording,), expectations=expectations)


def test_the_right_forward_of_a_model_with_ties_and_loud_padding_is_right() -> None:
    assert findings(run_of(Qwen3(SMALL))) == ()


@pytest.mark.parametrize(
    ("model", "choose"),
    [
        (Qwen3(dataclasses.replace(SMALL, theta=1e4)), lowest),
        (WithoutQNorm(SMALL), lowest),
        (Qwen3(SMALL), unbounded),
        (Qwen3(SMALL), highest),
    ],
    ids=["rope-theta", "q-norm-dropped", "vocabulary-bound-dropped", "ties-to-the-highest-id"],
)
def test_a_fault_that_is_common_to_all_arms_cannot_hide(model: Qwen3, choose: Callable[[Array], int]) -> None:
    got = findings(run_of(model, choose))
    assert {(one.message, one.verdict) for one in got} == {("ids of the oracle's own forward differs", Verdict.MISMATCH)}
    assert len({one.request for one in got}) >= 2
