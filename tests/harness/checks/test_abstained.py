"""Requests that may not be speculated on: each reason, the first of several, and the files of logits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checks.dumps import changed
from harness.checks.scores import rows_of
from harness.records.finding import Finding, Verdict
from harness.records.plan import Request, Tier
from harness.records.recording import Run
from tests.harness.checks.families import findings, result, run_of
from tests.harness.checks.ideal import Fault, altered
from tests.harness.checks.serving import dump_of

CHECK = "abstained"
PENALISED = "main-1/12/logit_bias=38/presence_penalty=1.5/repetition_penalty=1.5"
GATES = [
    (Fault.NO_GREEDY_GATE, "sampled"),
    (Fault.NO_GRAMMAR_GATE, "grammar"),
    (Fault.NO_LOGPROBS_GATE, "logprobs"),
    (Fault.NO_PENALTIES_GATE, "penalties"),
    (Fault.NO_BIAS_GATE, "logit-bias"),
]


@pytest.mark.parametrize("tier", Tier)
def test_a_right_engine_has_no_finding_on_any_tier(tier: Tier) -> None:
    got = result(CHECK, run_of(CHECK, tier=tier))
    assert got.findings == ()
    assert {"lookup", "draft", "dump/plain", "dump/lookup"} <= set(got.examined)


@pytest.mark.parametrize("tier", [Tier.MUTATION, Tier.GATE])
@pytest.mark.parametrize(("gate", "reason"), GATES, ids=lambda value: getattr(value, "name", value))
def test_a_gate_that_is_missing_is_found_on_the_lookup_arm(gate: Fault, reason: str, tier: Tier) -> None:
    found = findings(CHECK, run_of(CHECK, gate, tier=tier, arms=["lookup"]))
    assert {one.start for one in found} == {"lookup"}
    assert ("the reason differs", reason) in {(one.message, one.want) for one in found}


def test_a_server_that_leaves_logits_and_speculates_is_found() -> None:
    found = findings(CHECK, run_of(CHECK, Fault.NO_DUMP_GATE))
    assert {(one.start, one.request) for one in found} == {("dump/lookup", "main-1/12")}
    assert [one.message for one in found] == ["the path differs", "the reason differs"]


def test_a_reason_that_is_not_the_first_of_several_is_found() -> None:
    found = findings(CHECK, run_of(CHECK, Fault.LAST_REASON, tier=Tier.GATE))
    assert {(one.message, one.want, one.got) for one in found} == {
        ("the reason differs", "sampled", "grammar"),
        ("the reason differs", "sampled", "logit-bias"),
        ("the reason differs", "sampled", "dump-logits"),
        ("the reason differs", "grammar", "logprobs"),
        ("the reason differs", "logprobs", "penalties"),
        ("the reason differs", "logprobs", "dump-logits"),
        ("the reason differs", "penalties", "logit-bias"),
        ("the reason differs", "dump-logits", "penalties"),
        ("the reason differs", "dump-logits", "logit-bias"),
    }


def test_logprobs_that_are_not_the_plain_arms_are_found() -> None:
    (one,) = findings(CHECK, altered(run_of(CHECK), "lookup", "main-1/12/logprobs=3", reply={"logprobs": {}}))
    assert (one.message, one.verdict) == ("logprobs of the plain arm differs", Verdict.WRONG_PATH)


def redumped(start_id: str, request_id: str, **changes: Any) -> tuple[Finding, ...]:
    """Return what is found where fields of one file of logits are changed; its digest changes with them."""
    run = run_of(CHECK)
    dump = dump_at(run, start_id, request_id)
    return findings(CHECK, altered(run, start_id, request_id, dump=msgspec.structs.replace(dump, sha256="other", **changes)))


def dump_at(run: Run, start_id: str, request_id: str) -> Any:
    (recording,) = (one for one in run.recordings if one.start.id == start_id)
    answer = recording.answer(request_id)
    assert answer is not None and answer.dump is not None
    return answer.dump


def test_a_file_of_logits_that_is_missing_is_found() -> None:
    (one,) = findings(CHECK, altered(run_of(CHECK), "dump/lookup", "main-1/12", dump=None))
    assert (one.start, one.message) == ("dump/lookup", "no file of logits came with the answer")


def test_a_file_of_logits_with_a_row_too_few_is_found() -> None:
    dump = dump_at(run_of(CHECK), "dump/lookup", "main-1/12")
    (one,) = redumped("dump/lookup", "main-1/12", shape=(11, 288), content=dump.content[: 11 * 288 * 4])
    assert (one.message, one.want, one.got) == ("number of rows in the file of logits differs", 12, 11)


def test_a_file_of_logits_that_is_not_the_plain_arms_is_found_with_its_row() -> None:
    rows = [list(row) for row in rows_of(dump_at(run_of(CHECK), "dump/lookup", "main-1/12"))]
    rows[7][3] += 0.5
    (one,) = redumped("dump/lookup", "main-1/12", content=dump_of(rows).content)
    assert one.message == "the file of logits is not the plain arm's: they differ first in row 7"


def test_a_file_of_logits_of_another_type_or_header_is_found() -> None:
    (one,) = redumped("dump/lookup", "main-1/12", dtype="<f8")
    assert one.message == "the file of logits is not the plain arm's: its values have another type or shape"
    (one,) = redumped("dump/lookup", "main-1/12")
    assert one.message == "the file of logits is not the plain arm's: its header differs"


def test_a_token_that_is_not_the_best_of_its_row_is_found() -> None:
    rows = [list(row) for row in rows_of(dump_at(run_of(CHECK), "dump/plain", "main-1/12"))]
    rows[4][6] = max(rows[4][:256]) + 1
    found = redumped("dump/plain", "main-1/12", content=dump_of(rows).content)
    (one,) = (one for one in found if one.start == "dump/plain")
    assert one.message == "token 4 is not the best of its row in the file of logits, bias and penalties applied"
    assert (one.want, one.first_difference) == (6, 4)


def test_a_banned_token_that_leads_its_row_is_not_expected() -> None:
    rows = [list(row) for row in rows_of(dump_at(run_of(CHECK), "dump/plain", PENALISED))]
    rows[4][38] = max(rows[4][:256]) + 1  # the bias takes 100 off
    assert redumped("dump/plain", PENALISED, content=dump_of(rows).content) == ()


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ({}, [1.0, -2.0, 4.0, 0.5]),
        ({"logit_bias": {"3": 2.5}}, [1.0, -2.0, 4.0, 3.0]),
        ({"repetition_penalty": 2.0}, [0.5, -4.0, 4.0, 0.25]),  # 0 and 1 are in the prompt, 1 and 3 in the reply
        ({"presence_penalty": 1.5}, [1.0, -3.5, 4.0, -1.0]),
        ({"frequency_penalty": 1.0}, [1.0, -4.0, 4.0, -0.5]),
        ({"logit_bias": {"3": 1.5}, "repetition_penalty": 2.0, "presence_penalty": 1.0}, [0.5, -5.0, 4.0, 0.0]),
    ],
)
def test_a_row_is_changed_as_the_dialect_says(body: dict[str, Any], want: list[float]) -> None:
    request = Request(id="x", checks=(), body=body, prompt_ids=(0, 1))
    assert changed([1.0, -2.0, 4.0, 0.5], request, [1, 3, 1]) == want
