"""A plan of parts fitted to a subject: its arms, its fixtures, its words; and what is not tested, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.checks.registry import ALL_CHECKS
from harness.plans.build import build_plan
from harness.plans.fit import fitted
from harness.plans.registry import SLICES
from harness.plans.requests import completion
from harness.plans.starts import DRAFT, LOOKUP, PLAIN
from harness.records.need import Need
from harness.records.plan import Plan, Request, Start, Tier
from harness.subjects.declarations import Behaviour, Capability
from harness.subjects.description import Description, load_description
from harness.subjects.tables import Arm, CountsSource
from tests.harness.checks.ideal import fixture

NEEDS = {check.id: check.needs for check in ALL_CHECKS}
OUTSIDE = """
name = "outside"
family = "outside"
launch = {command = ["{python}"]}
ready = {line = 'port=(?P<port>\\d+)', probe = "/health"}
counts = {fields = {drafted = "timings.draft_n", accepted = "timings.draft_n_accepted"}}
accounting = {accepted_at_stop = "trimmed", drafted = "proposed", no_draft = "absent", budget_cap = "remaining", first_token = "outside"}
fixtures = {format = "gguf", packs = {mixed = "tiny-draft+gguf"}}
arms.plain = {}
arms.first = {role = "lookup", flags = ["{k}"], drafter = "first", oracle = "ngram-simple-2", least_k = 2}
arms.second = {role = "lookup", flags = ["{k}"], drafter = "second"}
arms.model = {role = "draft", flags = ["{pack}"], drafter = "model", oracle = "draft-model-4"}
arms.draft-alone = {}
"""


@pytest.fixture
def outside(tmp_path: Path) -> Description:
    path = tmp_path / "outside.toml"
    path.write_text(OUTSIDE)
    return load_description(path)


def plan_of(*starts: Start, checks: tuple[str, ...] = ("same-reply",)) -> Plan:
    return Plan(Tier.GATE, "tiny@1", starts, checks)


def asked(start: Start, *requests: Request, **changes: Any) -> Start:
    return msgspec.structs.replace(start, requests=requests or (said(24),), **changes)


def said(budget: int, *checks: str, name: str = "main-1", **fields: Any) -> Request:
    request = completion(fixture().stream(name), budget, "same-reply", **fields)
    return msgspec.structs.replace(request, checks=checks or ("same-reply",))


def fit(plan: Plan, description: Description) -> Plan:
    return fitted(plan, description, fixture(), NEEDS)


@pytest.mark.parametrize("tier", [Tier.MUTATION, Tier.GATE])
def test_the_reference_engine_plays_every_part_itself(tier: Tier) -> None:
    plan = build_plan(fixture(), tier, SLICES, tuple(SLICES))
    got = fit(plan, load_description("forward-serve"))
    sweeps = {request.id for start in plan.starts for request in start.requests if "sweep" in request.roles}
    planned = [start for start in plan.starts if start.requests[0].checks != ("sampled-distribution",)]
    for want, start in zip(planned, got.starts, strict=True):
        kept = tuple(request for request in want.requests if request.id not in sweeps)
        assert start == msgspec.structs.replace(want, requests=kept)
    assert got.not_tested == {
        "sampled-distribution": "it does not speculate while sampling",
        "near-ties": "its replies are certified: whatever differs is a fault",
        "known-faults": "its description pins no fault",
    }
    assert got.checks == tuple(check for check in plan.checks if check not in got.not_tested)


def test_a_part_that_several_arms_play_becomes_a_start_for_each(outside: Description) -> None:
    got = fit(plan_of(asked(PLAIN), asked(LOOKUP), asked(LOOKUP, id="k-7/lookup", parameters={"k": 7})), outside)
    assert [(start.id, start.arm, start.reference) for start in got.starts] == [
        ("plain", "plain", None),
        ("first", "first", "plain"),
        ("second", "second", "plain"),
        ("k-7/first", "first", "plain"),
        ("k-7/second", "second", "plain"),
    ]


def test_models_and_packs_are_those_that_the_subject_takes(outside: Description) -> None:
    twin = asked(PLAIN, id="end/plain", model="tiny+eos=5")
    got = fit(plan_of(asked(PLAIN), asked(DRAFT), twin, asked(DRAFT, id="never/draft", pack="never")), outside)
    models = {start.id: (start.model, start.pack) for start in got.starts}
    assert models["plain"] == ("tiny+gguf", None)
    assert models["model"] == ("tiny+gguf", "tiny-draft+gguf")
    assert models["end/plain"] == ("tiny+eos=5+gguf", None)
    assert "never/model" not in models


def test_a_parameter_that_an_arm_does_not_take_or_too_few_drafts_leave_its_start_out(outside: Description) -> None:
    odd = asked(LOOKUP, said(24, "fallback-round"), id="x/lookup", parameters={"k": 4, "fallback_below": 2.5})
    few = asked(LOOKUP, id="k-1/lookup", parameters={"k": 1})
    got = fit(
        plan_of(asked(PLAIN, said(24, "same-reply", "fallback-round")), odd, few, checks=("same-reply", "fallback-round")),
        outside,
    )
    assert [start.id for start in got.starts] == ["plain", "k-1/second"]
    assert got.not_tested == {"fallback-round": "no fallback_below is taken by arm first, second"}
    assert got.checks == ("same-reply",)


def test_a_switch_that_makes_a_pass_fail_is_left_out_with_its_request(outside: Description) -> None:
    failing = said(24, "request-order", role="failed", label="failed")
    start = Start("order/lookup", "lookup", "tiny", (said(24, "request-order"), failing), parameters={"k": 4, "fail_pass": 40})
    got = fit(plan_of(start, checks=("request-order",)), outside)
    assert [(one.id, one.parameters, len(one.requests)) for one in got.starts] == [
        ("order/first", {"k": 4}, 1),
        ("order/second", {"k": 4}, 1),
    ]


def test_a_law_of_which_only_the_reference_is_left_is_not_tested_and_says_why(outside: Description) -> None:
    cached = Start("cached/plain", "cached", "tiny", (said(24, "prefix-cache"),), reference="plain")
    got = fit(
        plan_of(asked(PLAIN, said(24, "prefix-cache")), cached, asked(LOOKUP), checks=("same-reply", "prefix-cache")), outside
    )
    assert got.not_tested == {"prefix-cache": "no arm plays cached"}


def test_a_start_whose_reference_is_not_started_is_left_out(outside: Description) -> None:
    lonely = asked(LOOKUP, id="dump/lookup", reference="dump/plain")
    got = fit(plan_of(asked(PLAIN), asked(LOOKUP), asked(PLAIN, id="dump/plain", arm="dump"), lonely), outside)
    assert [start.id for start in got.starts] == ["plain", "first", "second"]


def test_a_field_that_the_surface_lacks_takes_its_requests_out(outside: Description) -> None:
    behaviours = {Capability.LOGPROBS: Behaviour.UNSUPPORTED, Capability.IDS_IN: Behaviour.UNSUPPORTED}
    description = msgspec.structs.replace(outside, capabilities={"none": behaviours, "any": behaviours})
    requests = (said(24), said(5, "logprobs-target", logprobs=2), said(5, "capabilities", role="asks-ids_in", label="ids"))
    plan = plan_of(asked(PLAIN, *requests), asked(LOOKUP, *requests), checks=("same-reply", "logprobs-target", "capabilities"))
    got = fit(plan, description)
    assert [len(start.requests) for start in got.starts] == [1, 1, 1]
    assert got.not_tested["logprobs-target"] == "its surface has no logprobs"
    assert got.not_tested["capabilities"] == "its surface has no ids_in"


def test_laws_that_need_what_the_subject_does_not_say_are_not_tested(outside: Description) -> None:
    checks = ("same-reply", "abstained", "exact-drafts", "exact-counts")
    request = said(24, *checks)
    got = fit(plan_of(asked(PLAIN, request), asked(LOOKUP, request), checks=checks), outside)
    assert got.checks == ("same-reply", "exact-counts")
    assert got.not_tested == {
        "abstained": "it names neither path nor reason of a request, nor its plain steps",
        "exact-drafts": "it does not list its rounds",
        "exact-counts on second": "counts not predicted: no oracle knows its drafter",
    }
    assert [(start.id, start.requests[0].checks) for start in got.starts if start.id != "plain"] == [
        ("first", ("same-reply", "exact-counts")),
        ("second", ("same-reply",)),
    ]


def test_a_law_of_which_nothing_is_left_names_every_reason_and_one_that_the_subject_cannot_show_all_that_it_lacks(
    outside: Description,
) -> None:
    silent = msgspec.structs.replace(
        outside, counts=CountsSource(), capabilities={"second": {Capability.STOP: Behaviour.REFUSES}}
    )
    few = asked(LOOKUP, said(5, "budget-prefix", "exact-drafts", stop=["a"]), id="k-1/lookup", parameters={"k": 1})
    sliding = asked(DRAFT, said(5, "budget-prefix", "exact-drafts"), arm="draft-sliding", id="window1/draft", pack="window1")
    never = asked(DRAFT, said(5, "budget-prefix"), id="never/draft", pack="never")
    checks = ("same-reply", "budget-prefix", "exact-drafts", "accept-lengths")
    got = fit(
        plan_of(asked(PLAIN), few, sliding, never, asked(LOOKUP, said(24, "same-reply", "accept-lengths")), checks=checks), silent
    )
    elsewhere = "fewer than 2 drafts are never made by arm first; no arm plays draft-sliding"
    assert got.not_tested == {
        "budget-prefix": f"{elsewhere}; nothing stands for pack window1, never; it refuses stop",
        "exact-drafts": f"it does not list its rounds; {elsewhere}; nothing stands for pack window1; it refuses stop",
        "accept-lengths": "predicted only: it does not list its rounds",  # of which something is left
    }


def test_the_draft_model_is_asked_after_every_beginning_of_a_reply_that_a_law_predicts(outside: Description) -> None:
    request = said(4, "exact-counts")
    got = fit(plan_of(asked(PLAIN, request), asked(DRAFT, request), checks=("exact-counts",)), outside)
    alone = got.start("draft-alone")
    assert (alone.arm, alone.model, alone.pack) == ("draft-alone", "tiny-draft+gguf", None)
    stream = fixture().stream("main-1")
    assert [one.prompt_ids for one in alone.requests] == [stream.prompt_ids + stream.reply_ids[:count] for count in (1, 2, 3)]
    assert {one.max_tokens for one in alone.requests} == {4}


@pytest.mark.parametrize("fields", [{"temperature": 0.8, "seed": 1}, {"logit_bias": {"5": 1}}], ids=str)
def test_a_reply_that_no_stream_prescribes_is_not_predicted_with_a_draft_model(
    outside: Description, fields: dict[str, Any]
) -> None:
    known, odd = said(4, "exact-counts"), said(4, "exact-counts", "same-reply", **fields)
    plan = plan_of(asked(PLAIN, known, odd), asked(DRAFT, known, odd), checks=("same-reply", "exact-counts"))
    got = fit(plan, outside)
    assert [request.checks for request in got.start("model").requests] == [("exact-counts",), ("same-reply",)]
    assert list(got.not_tested) == ["exact-counts of 1 requests with a draft model"]


LLAMA = load_description("llama-server")


def test_a_reply_that_must_go_on_behind_its_end_token_is_asked_for_where_the_token_is_none() -> None:
    whole = said(24, "end-token", role="whole", ignore_eos=True)
    other = said(24, "oracle-reply", ignore_eos=True)
    ended = said(24, "end-token")
    twin = Start("end/plain", "plain", "tiny+eos=5", (whole, other, ended))
    lookup = Start("end/lookup", "lookup", "tiny+eos=5", (whole, ended), parameters={"k": 4}, reference="end/plain")
    got = fit(plan_of(asked(PLAIN), asked(LOOKUP), twin, lookup, checks=("same-reply", "end-token")), LLAMA)
    moved = next(request for request in got.start("plain").requests if request.id == "main-1/24")
    assert (moved.checks, moved.roles) == (("same-reply", "end-token"), ("whole",))
    assert [request.id for request in got.start("end/plain").requests] == ["main-1/24"]
    assert [request.id for request in got.start("end/ngram-mod").requests] == ["main-1/24"]


def test_a_request_that_only_the_reference_dialect_forbids_is_left_out_and_an_over_long_prompt_stays() -> None:
    zero = msgspec.structs.replace(said(0, "request-order", role="refused"), expect=400, refusal="max_tokens")
    too_long = msgspec.structs.replace(said(5, "request-order", role="over-long"), expect=400, refusal="prompt")
    start = Start("order/lookup", "lookup", "tiny", (said(24, "request-order"), zero, too_long), parameters={"k": 4})
    got = fit(plan_of(start, checks=("request-order",)), LLAMA)
    assert [request.id for request in got.start("order/ngram-mod").requests] == ["main-1/24", "main-1/5"]


def test_what_the_dialect_has_no_words_for_is_left_out() -> None:
    chat = Request("chat/x", ("same-reply",), path="/v1/chat/completions", body={"messages": []})
    odd = said(5, "refusals", name="main-1", n=2)
    plan = plan_of(asked(PLAIN, said(24), chat, odd), asked(LOOKUP, said(24), odd), checks=("same-reply", "refusals"))
    got = fit(plan, LLAMA)
    assert {request.id for start in got.starts for request in start.requests} == {"main-1/24"}
    assert got.not_tested["refusals"] == "its refusals do not name a field; its dialect has no words for field n"


def test_sampled_sweeps_are_for_subjects_that_speculate_while_sampling() -> None:
    sweep = said(24, role="sweep", temperature=0.8, seed=3)
    plan = plan_of(asked(PLAIN, said(24), sweep), asked(LOOKUP, said(24), sweep))
    assert len(fit(plan, LLAMA).start("ngram-mod").requests) == 2
    assert len(fit(plan, load_description("forward-serve")).start("lookup").requests) == 1


def test_the_whole_gate_plan_asks_six_engaged_arms_three_hundred_requests_each() -> None:
    got = fit(build_plan(fixture(), Tier.GATE, SLICES, tuple(SLICES)), LLAMA)
    counts: dict[str, int] = {}
    for start in got.starts:
        counts[start.arm] = counts.get(start.arm, 0) + len(start.requests)
    engaged = {name for name, arm in LLAMA.arms.items() if arm.drafter != "none" and arm.expect == "engaged"}
    assert len(engaged) >= 6
    assert min(counts[arm] for arm in engaged) >= 300


def test_every_need_of_a_check_has_a_reason_where_it_is_lacking() -> None:
    assert {need for needs in NEEDS.values() for need in needs} == set(Need)
    assert isinstance(LLAMA.arms["plain"], Arm)


@pytest.mark.parametrize("check", ["end-token", "stop-cut", "drafts-made", "request-order", "control-canary", "known-faults"])
def test_a_law_asked_for_by_itself_has_what_it_is_compared_with(check: str) -> None:
    got = fit(
        build_plan(fixture(), Tier.GATE, SLICES, (check, "drafts-made", "logprobs-target")), load_description("llama-server")
    )
    starts = {start.id: start for start in got.starts}
    assert all(name in starts for start in got.starts for name in (start.reference, start.host) if name is not None)
    if check == "end-token":
        uncut = {one.prompt_ids for one in starts["plain"].requests if "whole" in one.roles and check in one.checks}
        assert {one.prompt_ids for one in starts["end/ngram-mod"].requests if check in one.checks} <= uncut
    if check == "request-order":
        assert not any(check in one.checks for one in starts["plain"].requests)


def test_without_a_law_on_counts_the_draft_model_is_asked_for_those_that_predictions_help(outside: Description) -> None:
    plan = plan_of(asked(PLAIN), asked(DRAFT, said(4, "stop-cut", stop=["x"])), checks=("stop-cut",))
    alone = next(start for start in fit(plan, outside).starts if start.id == "draft-alone")
    assert [(len(one.prompt_ids), one.checks) for one in alone.requests] == [
        (len(fixture().stream("main-1").prompt_ids) + number, ("stop-cut",)) for number in (1, 2, 3)
    ]


def test_a_law_of_single_arms_that_only_a_reference_is_left_of_is_not_tested(outside: Description) -> None:
    cached = Start("cached/plain", "cached", "tiny", (said(24, "prefix-cache"),), reference="plain")
    plan = plan_of(asked(PLAIN, said(24, "prefix-cache")), cached, checks=("prefix-cache",))
    got = fit(plan, outside)
    assert (got.starts, got.checks, got.not_tested) == ((), (), {"prefix-cache": "no arm plays cached"})


def test_a_subject_that_says_nothing_of_its_drafts_is_asked_for_replies_alone(outside: Description) -> None:
    silent = msgspec.structs.replace(outside, counts=CountsSource())
    got = fit(build_plan(fixture(), Tier.MUTATION, SLICES, ("same-reply", "drafts-made", "control-canary", "accounting")), silent)
    assert got.checks == ("same-reply",)
    assert {got.not_tested[check] for check in ("drafts-made", "control-canary", "accounting")} == {
        "it does not say what a request drafted, so that it drafts at all is not shown"
    }


def test_sampled_replies_of_an_arm_that_draws_otherwise_are_compared_with_none(outside: Description) -> None:
    own = msgspec.structs.replace(outside.arms["first"], samples_alike=False)
    description = msgspec.structs.replace(outside, arms={**outside.arms, "first": own})
    sampled = said(24, "same-sampled-reply", "capabilities", temperature=0.8, seed=1)
    greedy = said(24, "same-sampled-reply", "same-reply")
    plan = plan_of(asked(PLAIN, greedy, sampled), asked(LOOKUP, greedy, sampled), checks=("same-reply", "same-sampled-reply"))
    got = fit(plan, description)
    assert [request.checks for request in got.start("first").requests] == [("same-reply",), ("capabilities",)]
    assert [request.checks for request in got.start("second").requests] == [greedy.checks, sampled.checks]
    assert got.not_tested["sampled replies on first"].startswith("its sampled replies are not the plain arm's")


def test_a_prompt_as_long_as_the_context_is_asked_of_those_alone_that_refuse_it(outside: Description) -> None:
    over_long = msgspec.structs.replace(said(24, "context-end", label="x"), expect=400, refusal="prompt")
    declared = msgspec.structs.replace(over_long, id="declared", checks=("capabilities",))
    taking = msgspec.structs.replace(outside, capabilities={"none": {Capability.OVER_LONG_PROMPT: Behaviour.ABSTAINS}, "any": {}})
    plan = plan_of(asked(PLAIN, said(24), over_long, declared), checks=("same-reply", "context-end", "capabilities"))
    assert [one.id for one in fit(plan, outside).start("plain").requests] == ["main-1/24", "main-1/24/x"]
    got = fit(plan, taking)
    assert [one.id for one in got.start("plain").requests] == ["main-1/24", "declared"]
    assert got.not_tested["context-end"] == "it takes a prompt as long as its context"


def test_a_law_on_one_capability_is_not_tested_where_the_surface_has_none(outside: Description) -> None:
    lacking = msgspec.structs.replace(outside, capabilities={"any": {Capability.STOP: Behaviour.UNSUPPORTED}, "none": {}})
    lacking.capabilities["none"][Capability.STOP] = Behaviour.UNSUPPORTED
    beside = said(24, "stop-cut", "same-reply")
    plan = plan_of(
        asked(PLAIN, beside, said(24, "stop-cut", stop=["a"])), asked(LOOKUP, beside), checks=("same-reply", "stop-cut")
    )
    got = fit(plan, lacking)
    assert got.not_tested["stop-cut"] == "its surface has no stop"
    assert {check for start in got.starts for request in start.requests for check in request.checks} == {"same-reply"}


def test_a_field_that_would_be_refused_is_left_out_where_it_asks_for_nothing_and_with_its_request_where_it_does(
    outside: Description,
) -> None:
    speech = msgspec.structs.replace(outside.dialect, leaves_out=("logprobs", "return_spec"))
    narrow = msgspec.structs.replace(outside, dialect=speech)
    plan = plan_of(asked(PLAIN, said(24), said(5, logprobs=None), said(6, logprobs=2)))
    assert [one.id for one in fit(plan, narrow).start("plain").requests] == ["main-1/24", "main-1/5/logprobs=None"]


def test_a_field_that_an_arm_is_declared_to_refuse_is_asked_for_the_law_on_capabilities_alone(outside: Description) -> None:
    refusing = {"second": {Capability.STOP: Behaviour.REFUSES}}
    description = msgspec.structs.replace(outside, capabilities=refusing)
    stopped = said(24, "same-reply", "stop-cut", "capabilities", stop=["x"])
    plan = plan_of(
        asked(PLAIN, said(24), stopped), asked(LOOKUP, said(24), stopped), checks=("same-reply", "stop-cut", "capabilities")
    )
    got = fit(plan, description)
    assert [request.checks for request in got.start("first").requests] == [("same-reply",), stopped.checks]
    assert [request.checks for request in got.start("second").requests] == [("same-reply",), ("capabilities",)]


def test_a_chat_is_left_out_where_the_dialect_has_no_path_for_it(outside: Description) -> None:
    speech = msgspec.structs.replace(outside.dialect, chat="")
    chats = msgspec.structs.replace(said(24), body={"messages": [], "max_tokens": 24}, path="/v1/chat/completions")
    plan = plan_of(asked(PLAIN, chats), asked(LOOKUP, chats))
    assert fit(plan, msgspec.structs.replace(outside, dialect=speech)).not_tested == {
        "same-reply": "its dialect has no words for a chat"
    }
    assert len(fit(plan, outside).starts) == 3


@pytest.mark.parametrize(
    ("capability", "law"), [(Capability.STREAM, "cancel-frees"), (Capability.LOGIT_BIAS, "concurrent-neighbours")]
)
def test_a_law_of_which_nothing_is_left_without_a_field_is_not_tested(
    outside: Description, capability: Capability, law: str
) -> None:
    lacking = {name: {capability: Behaviour.UNSUPPORTED} for name in ("none", "any", "first", "second", "model")}
    description = msgspec.structs.replace(outside, capabilities=lacking)
    plan = plan_of(asked(PLAIN, said(24, law)), asked(LOOKUP, said(24, law)), checks=(law,))
    assert fit(plan, description).not_tested == {law: f"its surface has no {capability.value}"}
