"""transformers as a subject: its gate, what it drafts, and what becomes of a run whose description pins less."""

from __future__ import annotations

import msgspec
import pytest

from harness.gate import GateOptions, judged, record
from harness.records.finding import Judgement, Verdict
from harness.records.recording import Run

pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytest.importorskip("transformers", reason="the extra `torch` is not installed")

CHECKS = ("same-reply", "oracle-reply", "drafts-made", "exact-counts", "exact-drafts", "stop-cut", "end-token", "known-faults")
ARMS = ("prompt-lookup", "assistant")


@pytest.fixture(scope="module")
def run() -> Run:
    return record(GateOptions(subject="transformers", checks=CHECKS, traced=False))


@pytest.fixture(scope="module")
def judgement(run: Run) -> Judgement:
    return judged(run)


def test_nothing_counts_against_it_but_what_its_description_pins(judgement: Judgement) -> None:
    assert judgement.counted == ()
    assert judgement.verdict is Verdict.NOT_TRACED
    assert {result.check for result in judgement.results} >= set(CHECKS)


@pytest.mark.parametrize("arm", ARMS)
def test_every_round_of_its_drafters_is_predicted_and_some_drafts_are_kept_and_some_are_not(
    run: Run, judgement: Judgement, arm: str
) -> None:
    (drafts,) = (result for result in judgement.results if result.check == "exact-drafts")
    (recording,) = (one for one in run.recordings if one.start.id == arm)
    rounds = [one for answer in recording.answers for one in answer.rounds or ()]
    assert drafts.examined[arm] >= 30
    assert any(one.num_accepted == len(one.drafted_ids) for one in rounds)
    assert any(one.num_accepted == 0 for one in rounds)


def test_unpinned_its_faults_at_stop_strings_are_mismatches(run: Run) -> None:
    got = judged(msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, known_faults=())))
    assert got.verdict is Verdict.MISMATCH
    assert {(one.check, run.plan.start(one.start).arm) for one in got.counted} >= {
        ("stop-cut", "plain"),
        ("stop-cut", "prompt-lookup"),
    }
