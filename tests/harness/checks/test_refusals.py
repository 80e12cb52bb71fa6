"""The law on refusals: refused starts and refused bodies, each by name, and the probes between them."""

from __future__ import annotations

import msgspec
import pytest

from harness.records.finding import Verdict
from harness.records.plan import Tier
from harness.records.recording import Answer, Recording, Run
from tests.harness.checks.ideal import altered
from tests.harness.checks.replying import findings, places, result, run_of, without

CHECK = "refusals"
START = "refused/two-drafters"
BAD = "bad/max_tokens=0"
NAMELESS = 'bad/body="{"'
LINE = "forward-serve: --spec-draft /p: given beside --spec-lookup 4; use one drafter"
SAID = {"message": "max_tokens: 0 is below 1; correct it", "type": "invalid_request_error", "param": "max_tokens"}


@pytest.mark.parametrize("tier", Tier)
def test_a_right_engine_has_no_finding_on_any_tier(tier: Tier) -> None:
    got = result(CHECK, run_of(CHECK, tier))
    assert got.findings == ()
    assert {start.id for start in run_of(CHECK, tier).plan.starts} == set(got.examined)


def recorded(run: Run, start_id: str, **changes: object) -> Run:
    """The run with fields of one recording changed."""
    recordings = tuple(msgspec.structs.replace(one, **changes) if one.start.id == start_id else one for one in run.recordings)
    return msgspec.structs.replace(run, recordings=recordings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"exit_status": None, "ready_line": "[ready] port=1", "log": ("[ready] port=1",)},
            "serves, though it must refuse to start",
        ),
        ({"exit_status": 1}, "did not refuse to start"),
        ({"exit_status": 0}, "did not refuse to start"),
        ({"exit_status": -9, "log": ()}, "did not refuse to start"),
        ({"exit_status": None}, "did not refuse to start"),
        ({"log": ()}, "refused in 0 lines"),
        ({"log": ("Traceback (most recent call last):", LINE)}, "refused in 2 lines"),
        ({"log": ("usage: forward-serve",)}, "refused without naming place and value"),
        ({"log": ("two drafters; use one, not --spec-lookup",)}, "refused without naming place and value"),
    ],
)
def test_a_start_that_does_not_refuse_by_name_is_found(changes: dict[str, object], message: str) -> None:
    (one,) = findings(CHECK, recorded(run_of(CHECK), START, **changes))
    assert (one.start, one.request, one.message, one.verdict) == (START, "", message, Verdict.MISMATCH)


def test_a_blank_line_beside_the_refusal_is_no_line() -> None:
    assert findings(CHECK, recorded(run_of(CHECK), START, log=("", LINE, "  "))) == ()


def test_a_start_that_answers_although_it_said_that_it_refuses_is_found() -> None:
    run = run_of(CHECK)
    answer = Answer(f"{START}/health", 200)
    (one,) = findings(CHECK, recorded(run, START, answers=(answer,)))
    assert (one.message, one.got) == ("serves, though it must refuse to start", "status 200")


def test_a_start_that_was_never_made_is_found() -> None:
    run = run_of(CHECK)
    recordings: tuple[Recording, ...] = tuple(one for one in run.recordings if one.start.id != START)
    (one,) = findings(CHECK, msgspec.structs.replace(run, recordings=recordings))
    assert (one.start, one.message) == (START, "was never started")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": 200}, "was not refused as it must be"),
        ({"status": 500}, "was not refused as it must be"),
        ({"status": 422}, "was not refused as it must be"),
        ({"status": None, "failure": "reset"}, "was not refused as it must be"),
        ({"body": None}, "the refusal has no error object"),
        ({"body": {"error": "max_tokens"}}, "the refusal has no error object"),
        ({"body": {"detail": SAID}}, "the refusal has no error object"),
        ({"body": {"error": {**SAID, "message": ""}}}, "the refusal's message is not one line"),
        ({"body": {"error": {**SAID, "message": "max_tokens:\nwrong"}}}, "the refusal's message is not one line"),
        ({"body": {"error": {**SAID, "message": None}}}, "the refusal's message is not one line"),
        ({"body": {"error": {**SAID, "type": None}}}, "the refusal has no type"),
        ({"body": {"error": {**SAID, "param": "prompt"}}}, "the refusal's param is not the field that is wrong"),
        ({"body": {"error": {**SAID, "param": None}}}, "the refusal's param is not the field that is wrong"),
        ({"body": {"error": {**SAID, "message": "bad input"}}}, "the refusal's message does not name the field that is wrong"),
    ],
)
def test_a_body_that_is_not_refused_by_name_is_found(changes: dict[str, object], message: str) -> None:
    (one,) = findings(CHECK, altered(run_of(CHECK), "lookup", BAD, **changes))
    assert (one.start, one.request, one.message, one.verdict) == ("lookup", BAD, message, Verdict.MISMATCH)


def test_a_refusal_in_these_words_is_right() -> None:
    assert findings(CHECK, altered(run_of(CHECK), "lookup", BAD, body={"error": SAID})) == ()


def test_a_refusal_of_the_whole_body_that_blames_a_field_is_found() -> None:
    (one,) = findings(CHECK, altered(run_of(CHECK), "lookup", NAMELESS, body={"error": SAID}))
    assert one.message == "the refusal's param is not the field that is wrong"


@pytest.mark.parametrize(
    "changes", [{"reply": {"ids": (1,)}}, {"counts": {"drafted": 99}}, {"status": None, "failure": "deadline", "reply": None}]
)
def test_a_request_that_a_refused_one_touches_is_found(changes: dict[str, object]) -> None:
    name = f"hit-1/5/after-{BAD}"
    assert places(findings(CHECK, altered(run_of(CHECK), "lookup", name, **changes))) == [("lookup", name)]


def test_probes_without_the_one_before_the_refused_ones_prove_nothing() -> None:
    found = findings(CHECK, without(run_of(CHECK), lambda request: "alone" in request.roles))
    assert {(one.start, one.verdict) for one in found} == {("lookup", Verdict.BLIND)}
