"""The families on replies, cuts, order and refusals, run against the ideal engine. For tests only.

To the ideal engine it adds what these families ask beyond completions: prompts that begin inside a prescribed reply, refused
bodies and starts, a pass that fails, and sampled replies of arbitrary bytes.
"""

from __future__ import annotations

import codecs
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from harness.checks import cuts, grammar, logprobs, neighbours, order, prefix, refusals, replies
from harness.checks.check import Check
from harness.checks.evidence import Evidence
from harness.checks.judge import apply
from harness.oracle.spelling import byte_of
from harness.plans import cuts as cuts_plan
from harness.plans import grammar as grammar_plan
from harness.plans import logprobs as logprobs_plan
from harness.plans import neighbours as neighbours_plan
from harness.plans import order as order_plan
from harness.plans import prefix as prefix_plan
from harness.plans import refusals as refusals_plan
from harness.plans import replies as replies_plan
from harness.plans.build import build_plan
from harness.plans.streams import continued
from harness.records.finding import CheckResult, Finding, Verdict
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, ArmFacts, Chunk, Counts, Recording, Reply, Run, Trace
from tests.harness.checks.ideal import DECLARED, Fault, all_streams, fixture
from tests.harness.checks.script import Script, with_expectations
from tests.harness.checks.serving import Server

PLANS = (replies_plan, cuts_plan, order_plan, refusals_plan, prefix_plan, grammar_plan, logprobs_plan, neighbours_plan)
SLICES = {check: slice_of for plan in PLANS for check, slice_of in plan.SLICES.items()}
FAMILIES = (replies, cuts, order, refusals, prefix, grammar, logprobs, neighbours)
CHECKS: tuple[Check, ...] = tuple(check for family in FAMILIES for check in family.CHECKS)
HOT = 10.0  # temperatures from here on give arbitrary bytes
REFUSED_ARMS = dict.fromkeys(("two-drafters", "device-on-host", "npu-missing-device", "npu-without-device"), ArmFacts())
REFUSALS = {
    "two-drafters": "--spec-draft /p: given beside --spec-lookup 4; use one drafter",
    "unknown-flag": "--no-such-flag: unknown flag; leave it out",
    "fallback-alone": "--spec-fallback 2.5: given without a drafter; leave it out",
    "pack-hidden": "config.json: hidden_size=512 is not the target's 256; use its own pack",
    "model-truncated": "model.q4nx: 900 bytes, the header needs 1000; fetch it again",
    "pack-no-candidates": "config.json: selector_top_k is missing; write it",
    "pack-candidates": "config.json: selector_top_k=289 is above vocab_size=288; correct it",
    "pack-group": "config.json: conv_group_size=7 does not divide hidden_size=256; correct it",
    "pack-rank": "candidate_selector.predecessor_codebook: shape [288, 16], want [288, 3]; correct it",
    "pack-sink": "config.json: attention_sink_bias=true is not implemented; use a pack without it",
    "pack-codebook": "candidate_selector.predecessor_codebook is missing; write it",
    "pack-of-two-generations": "config.json: conv_group_size=16 belongs to generation 2; use a pack of one generation",
    "pack-lacks-tensors": "layers.0.attention_conv.base_kernel is missing; write it",
    "pack-mask": "config.json: mask_token_id=288 is not below vocab_size=288; correct it",
    "pack-tap": "config.json: target_layer_ids [9]: the target has 3 layers; correct it",
    "pack-block": "config.json: block_size=1 leaves no draft; use 2 or more",
    "pack-no-taps": "config.json: target_layer_ids is missing; write it",
    "model-vocabulary": "config.json: vocab_size=320 is not the 288 of lm_head; correct it",
    "draft-k-above-block": "--spec-draft-k 8: the pack drafts at most 7; use less",
    "draft-k-zero": "--spec-draft-k 0: at least 1; use more",
    "draft-k-alone": "--spec-draft-k 3: given without --spec-draft; leave it out",
    "lookup-negative": "--spec-lookup -1: not below 0; use 0 or more",
    "lookup-no-number": "--spec-lookup many: not a whole number; use one",
    "fallback-negative": "--spec-fallback -2: not below 0; use 0 or more",
    "fallback-no-window": "--spec-fallback-window 0: at least 1; use more",
    "fail-pass-zero": "--fail-pass 0: at least 1; use more",
    "device-on-host": "--device /dev/null: given on the host backend; leave it out",
    "npu-missing-device": "--device /s/no-such-device: No such file or directory; give a path that can be opened",
    "npu-without-device": "--backend npu: given without a path to open; add --device",
}


@dataclass(frozen=True)
class Continued(Script):
    """A script that knows the prescribed replies from any place of them."""

    def prescribed(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        """Return the rest of a stream's reply after a prompt that holds its beginning; () where none does."""
        return _by_prompt().get(prompt, ())


@functools.cache
def _by_prompt() -> dict[tuple[int, ...], tuple[int, ...]]:
    sources = [continued(stream, count) for stream in all_streams() for count in range(len(stream.reply_ids))]
    return {source.prompt_ids: source.reply_ids for source in sources}


@functools.cache
def plan_of(check_id: str, tier: Tier = Tier.MUTATION) -> Plan:
    """Return the plan that one check asks for."""
    return build_plan(fixture(), tier, SLICES, [check_id])


@functools.cache
def run_of(check_id: str, tier: Tier = Tier.MUTATION) -> Run:
    """Return that plan, answered as it must be."""
    return answered(plan_of(check_id, tier))


def answered(plan: Plan, *faults: Fault) -> Run:
    """Answer a plan as it must be, but for the faults planted."""
    declared = msgspec.structs.replace(DECLARED, arms={**DECLARED.arms, **REFUSED_ARMS})
    run = Run(plan, "ideal", declared, tuple(_recorded(start, frozenset(faults)) for start in plan.starts))
    return with_expectations(run, Continued(all_streams()))


def _recorded(start: Start, faults: frozenset[Fault]) -> Recording:
    trace = Trace(traced=True)
    if start.expect == "refused":
        line = f"forward-serve: {REFUSALS[start.id.removeprefix('refused/')]}"
        return Recording("ideal", start, (), trace, (line,), 2)
    server = Server(start, Continued(all_streams()), faults)
    answers = tuple(_answer(server, request, number) for number, request in enumerate(start.requests, 1))
    return Recording("ideal", start, answers, trace, ("[ready] port=1",), None, ready_line="[ready] port=1")


def _answer(server: Server, request: Request, number: int) -> Answer:
    is_hot = request.expect == 200 and (request.body or {}).get("temperature", 1.0) >= HOT
    return _hot_answer(request, number) if is_hot else server.answer(request, number)


def _hot_answer(request: Request, number: int) -> Answer:
    """Answer with bytes of every kind: whole characters, halves of them, and such as UTF-8 never uses."""
    body = request.body or {}
    pattern = ("aé€".encode() + b"\xf8\xe2\x82" + bytes([65 + int(body["seed"]) % 26])) * request.max_tokens
    ids = tuple(next(token for token in range(256) if byte_of(token) == byte) for byte in pattern[: request.max_tokens])
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    chunks = [Chunk(decoder.decode(bytes([byte_of(token)])), (token,)) for token in ids]
    chunks.append(Chunk(decoder.decode(b"", final=True), finish_reason="length"))
    text = "".join(chunk.text for chunk in chunks)
    reply = Reply(f"cmpl-{number}", text, ids, "length", None, len(request.prompt_ids), len(ids))
    counts = Counts("plain", "none", 0, 0, 0, len(ids) - 1, len(ids), 0, None, "-")
    streamed = (*chunks, Chunk("", has_usage=True)) if request.streams else ()
    return Answer(request.id, 200, reply=reply, chunks=streamed, saw_done=bool(streamed), counts=counts, rounds=())


def result(check_id: str, run: Run) -> CheckResult:
    """Judge a run by one check."""
    (check,) = (check for check in CHECKS if check.id == check_id)
    return apply(check, Evidence(run))


def findings(check_id: str, run: Run) -> tuple[Finding, ...]:
    """Return what one check finds, and hold every finding to name its check."""
    found = result(check_id, run).findings
    assert all(one.check == check_id for one in found)
    return found


def places(found: Iterable[Finding]) -> list[tuple[str, str]]:
    """Return (start, request) of each finding."""
    return [(one.start, one.request) for one in found]


def blind(found: Iterable[Finding]) -> list[str]:
    """Return the messages of findings that say that the check proves nothing."""
    return [one.message for one in found if one.verdict is Verdict.BLIND]


def changed(run: Run, change: Callable[[Start, Request, Answer], Answer]) -> Run:
    """Return the run with every answer passed through `change`."""
    recordings = []
    for recording in run.recordings:
        by_id = {request.id: request for request in recording.start.requests}
        answers = tuple(change(recording.start, by_id[one.request_id], one) for one in recording.answers)
        recordings.append(msgspec.structs.replace(recording, answers=answers))
    return msgspec.structs.replace(run, recordings=tuple(recordings))


def replanned(run: Run, change: Callable[[Start], Start]) -> Run:
    """Return the run as if its plan had been another one; the answers stay."""
    recordings = tuple(msgspec.structs.replace(one, start=change(one.start)) for one in run.recordings)
    plan = msgspec.structs.replace(run.plan, starts=tuple(one.start for one in recordings))
    return msgspec.structs.replace(run, plan=plan, recordings=recordings)


def without(run: Run, is_gone: Callable[[Request], bool]) -> Run:
    """Return the run whose plan never asked for some requests."""

    def cut(start: Start) -> Start:
        return msgspec.structs.replace(start, requests=tuple(one for one in start.requests if not is_gone(one)))

    return replanned(run, cut)


def with_reply(one: Answer, **fields: object) -> Answer:
    """Return an answer with fields of its reply changed."""
    assert one.reply is not None
    return msgspec.structs.replace(one, reply=msgspec.structs.replace(one.reply, **fields))


def with_counts(one: Answer, **fields: object) -> Answer:
    """Return an answer with fields of its counts changed."""
    assert one.counts is not None
    return msgspec.structs.replace(one, counts=msgspec.structs.replace(one.counts, **fields))
