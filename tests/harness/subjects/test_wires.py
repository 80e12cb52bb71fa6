"""Contract of the shipped descriptions with their engines' wires: the plan fitted to each is answered by a small server of its wire.

What is sent has the engine's own launch flags, fields and paths; what comes back is read into replies and counts as described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.checks.registry import ALL_CHECKS
from harness.plans.build import build_plan
from harness.plans.fit import fitted
from harness.plans.registry import SLICES
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, Counts
from harness.subjects.client import LEFT
from harness.subjects.column import Launcher
from harness.subjects.description import Description, load_description
from harness.subjects.subject import RunningSubject
from harness.tracing.machine import Machine
from tests.harness.checks.ideal import fixture

FOLDER = Path(__file__).parent / "fake"
NEEDS = {check.id: check.needs for check in ALL_CHECKS}
WIRES = ("vllm", "sglang", "mlx", "trtllm", "onebit")
TELL_IDS = ("vllm", "sglang")
TELL_COUNTS = ("vllm", "sglang")
Begin = Callable[..., RunningSubject]


def described(wire: str) -> Description:
    return load_description(FOLDER / f"fake_{wire}.toml")


def plan_of(wire: str) -> Plan:
    return fitted(build_plan(fixture(), Tier.GATE, SLICES, tuple(SLICES)), described(wire), fixture(), NEEDS)


def kinds_of(plan: Plan, arm: str) -> list[Request]:
    """One request of each kind that an arm is asked: by the fields of its body, its budget and whether the client leaves."""
    served = [one for start in plan.starts if start.arm == arm for one in start.requests if one.path == "/v1/completions"]
    kinds = {
        (*sorted(one.body or ()), one.max_tokens, one.leave_after_chunks): one
        for one in served
        if one.expect == 200 and not one.group
    }
    return list(kinds.values())


def drafting_arm(wire: str) -> str:
    return next(name for name, arm in described(wire).arms.items() if arm.drafter != "none")


@pytest.fixture
def begin(tmp_path: Path, machine: Machine, model: Path) -> Iterator[Begin]:
    launchers = []

    def begun(wire: str, arm: str = "plain", **parameters: Any) -> RunningSubject:
        description = described(wire)
        taken = {name: value for name, value in parameters.items() if name in description.parameters_of(arm)}
        launchers.append(Launcher(description, tmp_path, machine=machine))
        return launchers[-1].start(Start(id=arm, arm=arm, model="tiny", requests=(), parameters=taken), model, model)

    yield begun
    for launcher in launchers:
        launcher.close()


def asking(prompt: str = "abc", max_tokens: int = 5, **fields: Any) -> Request:
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "return_token_ids": True, "return_spec": True, **fields}
    return Request(id=f"r-{max_tokens}", checks=(), body=body)


def letters(size_of_prompt: int, count: int) -> str:
    """What the server says: the small letters, from the one that the prompt's length picks."""
    return "".join(chr(ord("a") + (size_of_prompt + place) % 26) for place in range(count))


def said(answer: Answer) -> tuple[str, tuple[int, ...] | None]:
    assert answer.reply is not None, answer
    return answer.reply.text, answer.reply.ids


@pytest.mark.parametrize("wire", WIRES)
def test_the_plan_fitted_to_it_is_served_on_each_arm_as_the_description_reads_it(wire: str, begin: Begin) -> None:
    plan, description = plan_of(wire), described(wire)
    arms = dict.fromkeys(start.arm for start in plan.starts)
    assert {"plain", drafting_arm(wire)} <= set(arms)
    for arm in arms:
        subject = begin(wire, arm, k=3)
        asked = kinds_of(plan, arm)
        assert len(asked) > 6
        for request in asked:
            answer = subject.ask(request)
            assert answer.failure in ("", LEFT), (arm, request.id)
            if answer.failure == LEFT:
                continue
            text, ids = said(answer)
            want = letters(len(request.prompt_ids), len(text))
            assert (answer.status, text) == (200, want), (arm, request.id)
            assert ids == (tuple(64 + ord(letter) - ord("a") for letter in want) if wire in TELL_IDS else None)
            assert (answer.counts is not None) == description.declared().reports_counts
            if answer.counts is not None:
                drafts = description.arms[arm].drafter != "none"
                assert answer.counts.drafted == 2 * (len(text) // 3 if drafts else 0), (arm, request.id)
                assert answer.counts.tokens == len(text)


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_adds_up_to_the_unstreamed_reply_and_closes(wire: str, begin: Begin) -> None:
    subject = begin(wire, drafting_arm(wire), k=3)
    streamed = subject.ask(asking(stream=True, stream_options={"include_usage": True}))
    whole = subject.ask(asking())
    assert (streamed.failure, streamed.saw_done) == ("", True)
    assert said(streamed) == said(whole)
    assert streamed.reply is not None
    assert whole.reply is not None
    assert streamed.reply.completion_tokens == whole.reply.completion_tokens == (None if wire == "onebit" else 5)
    assert [chunk.text for chunk in streamed.chunks if chunk.text] == (["defgh"] if wire == "onebit" else list("defgh"))


@pytest.mark.parametrize("wire", TELL_COUNTS)
def test_an_end_token_is_taken_off_ids_count_and_stream_and_named(wire: str, begin: Begin) -> None:
    subject = begin(wire, drafting_arm(wire), k=3)
    for fields in ({}, {"stream": True, "stream_options": {"include_usage": True}}):
        answer = subject.ask(asking("end", **fields))
        reply = answer.reply
        assert reply is not None
        assert (reply.text, reply.ids, reply.finish_reason, reply.stop_reason) == ("def", (67, 68, 69), "stop", 185)
        assert (reply.completion_tokens, answer.counts and answer.counts.tokens) == (3, 3)
        assert [token for chunk in answer.chunks for token in chunk.ids] == ([67, 68, 69] if fields else [])


@pytest.mark.parametrize("wire", TELL_COUNTS)
def test_a_stop_is_named_and_its_ids_run_up_to_the_token_that_completed_it(wire: str, begin: Begin) -> None:
    reply = begin(wire).ask(asking(stop=["ef"])).reply
    assert reply is not None
    assert (reply.text, reply.ids, reply.finish_reason, reply.stop_reason) == ("d", (67, 68, 69), "stop", "ef")


@pytest.mark.parametrize("wire", TELL_COUNTS)
def test_counts_of_a_request_are_its_own_and_a_plain_arm_drafts_nothing(wire: str, begin: Begin) -> None:
    drafting, plain = begin(wire, drafting_arm(wire), k=3), begin(wire)
    cached = 0 if wire == "sglang" else None
    for budget, rounds in ((7, 2), (2, 0), (4, 1)):
        path = "spec" if rounds else "plain"
        want = Counts(path, None, rounds, 2 * rounds, rounds, None, budget, cached, None, None)
        assert drafting.ask(asking(max_tokens=budget)).counts == want
    counts = plain.ask(asking(max_tokens=7)).counts
    assert counts is not None
    assert (counts.path, counts.drafted, counts.accepted, counts.tokens) == ("plain", 0, 0, 7)


def test_counts_that_vllm_leaves_out_behind_no_usage_come_from_its_counters_alone(begin: Begin) -> None:
    subject = begin("vllm", "ngram", k=3)
    whole = subject.ask(asking(max_tokens=7))
    assert whole.counts is not None
    assert whole.usage_counts == whole.counts  # the second witness says the same
    bare = subject.ask(asking(max_tokens=7, stream=True))  # no event has usage, so none has metrics
    assert bare.failure == "metrics: they count no tokens, and neither does the answer"
    plain = begin("vllm").ask(asking(max_tokens=7))
    assert (plain.counts and plain.counts.drafted, plain.usage_counts) == (0, None)


def test_counts_that_sglang_leaves_out_say_that_no_verify_ran(begin: Begin) -> None:
    answer = begin("sglang", "ngram", k=3).ask(asking(max_tokens=2))
    assert "spec_verify_ct" not in answer.body["meta_info"]
    assert answer.counts == Counts("plain", None, 0, 0, 0, None, 2, 0, None, None)


@pytest.mark.parametrize("wire", TELL_COUNTS)
def test_logprobs_come_in_the_form_of_openais_completions(wire: str, begin: Begin) -> None:
    subject = begin(wire)
    whole = subject.ask(asking(max_tokens=3, logprobs=2)).reply
    stream = subject.ask(asking(max_tokens=3, logprobs=2, stream=True, stream_options={"include_usage": True})).reply
    assert whole is not None
    assert stream is not None
    assert whole.logprobs == stream.logprobs
    assert (whole.logprobs["tokens"], whole.logprobs["text_offset"]) == (["d", "e", "f"], [0, 1, 2])
    assert [list(one) for one in whole.logprobs["top_logprobs"]] == [["d", "e"], ["e", "f"], ["f", "g"]]
    assert [one[token] for one, token in zip(whole.logprobs["top_logprobs"], "def", strict=True)] == whole.logprobs[
        "token_logprobs"
    ]
    asked_alone = subject.ask(asking(max_tokens=3)).reply
    assert asked_alone is not None
    assert asked_alone.logprobs is None


@pytest.mark.parametrize("wire", WIRES)
def test_an_over_long_prompt_is_answered_as_declared(wire: str, begin: Begin) -> None:
    status = begin(wire).ask(asking("x" * 1100)).status
    is_refused = described(wire).declared().capabilities["none"]["over_long_prompt"] == "4xx"
    assert (status == 400) == is_refused


@pytest.mark.parametrize("wire", WIRES)
def test_what_its_surface_does_not_have_is_asked_by_no_request_and_listed(wire: str) -> None:
    plan, behaviours = plan_of(wire), described(wire).declared().capabilities["none"]
    fields = {"stop": "stop", "logprobs": "logprobs", "grammar": "structured_outputs", "ignore_eos": "ignore_eos", "seed": "seed"}
    for capability, field in fields.items():
        asked = [
            one.id for start in plan.starts for one in start.requests if (one.body or {}).get(field) not in (None, False, [])
        ]
        assert bool(asked) == (behaviours[capability] != "unsupported"), (capability, asked[:3])
    laws = {"engaged-exactly", "drafts-made", "accounting", "control-counts", "control-canary", "exact-counts"}
    if wire not in TELL_COUNTS:
        assert laws <= set(plan.not_tested)
        assert not laws & set(plan.checks)
    else:
        assert "accounting" not in plan.not_tested


def test_a_field_that_would_be_refused_is_left_out_of_what_is_sent(begin: Begin) -> None:
    assert (
        begin("trtllm").ask(asking()).status == 200
    )  # the server refuses return_spec, return_token_ids and a body without model
    assert begin("mlx").ask(asking(logprobs=None)).status == 200


def test_a_device_of_the_machine_is_opened_as_it_is_and_watched(tmp_path: Path, machine: Machine, model: Path) -> None:
    file = tmp_path / "npu.toml"
    file.write_text(
        f"name = 'npu'\nextends = '{FOLDER / 'fake_onebit.toml'}'\n"
        f"[source]\nroot = '{FOLDER}'\n[arms.npu]\nflags = ['--open', '{{device}}']\n"
        "device = '/dev/full'\nreal_device = true\n"
    )
    with Launcher(load_description(file), tmp_path, machine=machine) as launcher:
        subject = launcher.start(Start(id="npu", arm="npu", model="tiny", requests=()), model)
        assert subject.ask(asking()).status == 200
        ended = subject.end()
    assert ended.device is not None
    assert (ended.device.path, ended.device.fact) == ("/dev/full", "the machine's own /dev/full")
    assert [event.path for event in ended.trace.events if event.path == "/dev/full"] == ["/dev/full"]
