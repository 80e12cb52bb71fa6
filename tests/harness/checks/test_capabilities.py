"""Capabilities: the declared behaviour is the one that happens, and a field that changes nothing was ignored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checks.capabilities import CHECKS
from harness.checks.judge import judge
from harness.oracle.constraints import FIXED
from harness.plans.build import build_plan
from harness.plans.capabilities import SLICES
from harness.records.finding import Finding, Judgement, Verdict
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, ArmFacts, Chunk, Counts, Declared, Recording, Reply, Run, Trace
from tests.harness.checks.ideal import fixture

NAMES = (
    "stop",
    "temperature",
    "seed",
    "logprobs",
    "grammar",
    "penalties",
    "logit_bias",
    "ids_in",
    "ids_out",
    "stream",
    "ignore_eos",
)
PLAIN = dict.fromkeys(NAMES, "abstains") | {"over_long_prompt": "4xx"}
LOOKUP = dict.fromkeys(NAMES, "engaged") | {"over_long_prompt": "4xx"}
LOOKUP |= dict.fromkeys(("temperature", "logprobs", "grammar", "penalties", "logit_bias"), "abstains")
DECLARED = Declared(
    arms={"plain": ArmFacts(), "lookup": ArmFacts("lookup", "lookup-321"), "draft": ArmFacts("dflash", "dflash")},
    capabilities={"none": PLAIN, "lookup": LOOKUP, "dflash": LOOKUP},
)
SAID = fixture().stream("repeat-1").reply


def plan() -> Plan:
    return build_plan(fixture(), Tier.GATE, SLICES, ["capabilities"])


def text_of(start: Start, request: Request) -> str:
    """What a right engine says."""
    body = request.body or {}
    if "+eos=" in start.model and not body.get("ignore_eos"):
        return ""
    if body.get("temperature"):
        return f"hot{body['seed']}"
    if body.get("structured_outputs") == FIXED.fields["structured_outputs"]:
        return "ABCDEF"
    if body.get("frequency_penalty") or body.get("logit_bias"):
        return "~" + SAID[1:]
    (stop,) = body.get("stop") or ("\n",)
    return SAID.partition(stop)[0]


def answered(start: Start, request: Request) -> Answer:
    if request.expect != 200:
        return Answer(request.id, 400)
    body, text = request.body or {}, text_of(start, request)
    is_ended = not text or bool(body.get("stop"))
    ids = tuple(ord(char) - 33 for char in text) if body.get("return_token_ids") else None
    scores = {"tokens": list(text)} if body.get("logprobs") else None
    reply = Reply("id", text, ids, "stop" if is_ended else "length", None, 16, len(text), logprobs=scores)
    abstains = {"temperature", "logprobs", "structured_outputs", "frequency_penalty", "logit_bias"}
    is_plain = start.arm == "plain" or any(body.get(name) for name in abstains)
    counts = Counts("plain" if is_plain else "spec", "none", 0, 0, 0, 0, len(text), 0, None, "-")
    chunks = tuple(Chunk(char) for char in text) if request.streams else ()
    return Answer(request.id, 200, reply=reply, counts=counts, chunks=chunks)


def judged(changes: dict[str, dict[str, Any]] | None = None, declared: Declared = DECLARED) -> Judgement:
    """Judge the whole plan, with answers of the lookup arm changed where a request's id ends so."""
    recordings = []
    for start in plan().starts:
        answers = [answered(start, request) for request in start.requests]
        for ending, change in (changes or {}).items() if start.id == "lookup" else ():
            answers = [_changed(one, change) if one.request_id.endswith(ending) else one for one in answers]
        recordings.append(Recording("s", start, tuple(answers), Trace(True), (), None))
    return judge(Run(plan(), "s", declared, tuple(recordings)), CHECKS)


def _changed(answer: Answer, change: dict[str, Any]) -> Answer:
    reply = {name: value for name, value in change.items() if name in Reply.__struct_fields__}
    if reply and answer.reply is not None:
        answer = msgspec.structs.replace(answer, reply=msgspec.structs.replace(answer.reply, **reply))
    if "path" in change and answer.counts is not None:
        answer = msgspec.structs.replace(answer, counts=msgspec.structs.replace(answer.counts, path=change["path"]))
    return msgspec.structs.replace(answer, **{name: change[name] for name in ("chunks", "status") if name in change})


def told(found: tuple[Finding, ...]) -> list[str]:
    return [one.message for one in found]


def test_an_engine_that_does_as_it_is_declared_has_no_finding() -> None:
    got = judged()
    assert (got.verdict, got.findings) == (Verdict.LOSSLESS, ())
    assert set(got.results[0].examined) == {"plain", "lookup", "draft", "end/plain", "end/lookup"}


@pytest.mark.parametrize(
    ("ending", "change", "capability"),
    [
        ("/stop=" + SAID[9:11], {"text": SAID}, "stop"),
        ("/seed=7/temperature=0.8", {"text": SAID}, "temperature"),
        ("/again", {"text": "other"}, "seed"),
        ("/seed=8/temperature=0.8", {"text": "hot7"}, "seed"),
        ("/logprobs=2", {"logprobs": None}, "logprobs"),
        ("/fixed", {"text": SAID}, "grammar"),
        ("/frequency_penalty=2.0", {"text": SAID}, "penalties"),
        ("/logit_bias=" + str(ord(SAID[0]) - 33), {"text": SAID}, "logit_bias"),
        ("/ids", {"text": "other"}, "ids_in"),
        ("/no-ids", {"ids": (1,)}, "ids_out"),
        ("/stream_options=include_usage", {"chunks": (Chunk(SAID),)}, "stream"),
    ],
)
def test_a_field_that_changes_nothing_was_ignored(ending: str, change: dict[str, Any], capability: str) -> None:
    got = judged({ending: change})
    assert got.verdict is Verdict.IGNORED
    assert f"{capability} was ignored: the answer does not show it" in told(got.findings)


def test_an_over_long_prompt_that_is_served_is_not_as_declared() -> None:
    assert told(judged({"over-long/24": {"status": 200}}).findings) == ["over_long_prompt is declared 4xx"]


def test_a_request_that_is_to_abstain_and_is_speculated_on_is_found() -> None:
    got = judged({"/logprobs=2": {"path": "spec"}})
    assert told(got.findings) == ["logprobs is declared abstains, and was speculated on"]


def test_a_request_that_is_to_engage_and_is_not_speculated_on_is_found() -> None:
    got = judged({"/ids": {"path": "plain"}})
    assert told(got.findings) == ["ids_in is declared engaged, and was not speculated on"]


def test_a_field_that_also_abstains_says_nothing_of_one_that_engages() -> None:
    assert judged({"/again": {"path": "plain"}}).findings == ()  # seed engages, a temperature does not


def test_a_capability_of_which_nothing_is_declared_is_found() -> None:
    table = {name: word for name, word in LOOKUP.items() if name != "stop"}
    declared = msgspec.structs.replace(DECLARED, capabilities={**DECLARED.capabilities, "lookup": table})
    assert told(judged(declared=declared).findings) == ["nothing is declared for stop"]


def test_a_declared_capability_that_the_plan_asks_nothing_for_blinds_the_run() -> None:
    declared = msgspec.structs.replace(DECLARED, capabilities={**DECLARED.capabilities, "lookup": {**LOOKUP, "tools": "engaged"}})
    got = judged(declared=declared)
    assert (got.verdict, told(got.findings)) == (Verdict.BLIND, ["the plan asks no request for tools"])


def test_a_description_without_capabilities_has_nothing_to_test() -> None:
    got = judged(declared=msgspec.structs.replace(DECLARED, capabilities={"none": {}}))
    assert got.not_tested == {"capabilities": "its description declares no capabilities"}
