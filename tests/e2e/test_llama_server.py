"""llama.cpp's own server on the fabricated model: its replies, its gate, and what becomes of a run whose description says otherwise."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import requests

from harness.defaults import DEFAULT_RECIPE
from harness.fabricate.store import fabricate
from harness.fabricate.twins import twin
from harness.gate import GateOptions, judged, record
from harness.oracle.draft_model import ALONE
from harness.records.finding import Judgement, Verdict
from harness.records.fixture import Fixture
from harness.records.known import KnownFault
from harness.records.recording import Run
from harness.report.known import known_lines

pytestmark = [pytest.mark.e2e, pytest.mark.llama]
pytest.importorskip("xllamacpp", reason="the extra `llama` is not installed")
pytest.importorskip("gguf", reason="the extra `llama` is not installed")

PATIENCE_S = 30
RUNNER = [sys.executable, "-m", "harness.subjects.families.llama_server", "--threads", "1", "--threads-batch", "1"]
COMPARABLE = ["--no-warmup", "--fit", "off", "--flash-attn", "off", "--cache-type-k", "f32", "--cache-type-v", "f32"]
DRAFTERS = {
    "plain": [],
    "ngram-simple": ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "2", "--spec-ngram-simple-size-m", "4"],
    "draft-simple": ["--spec-type", "draft-simple", "--spec-draft-model", "{draft}", "--spec-draft-n-max", "4"],
}
CHECKS = (
    "drafts-made",
    "exact-counts",
    "accounting",
    "context-end",
    "logprobs-target",
    "capabilities",
    "sampled-distribution",
    "known-faults",
)
BOOKED, NO_LOGPROBS = "block-booked-before-the-context-is-looked-at", "no-logprobs-from-a-verify-round"


@pytest.fixture(scope="module")
def tiny() -> Fixture:
    return fabricate(DEFAULT_RECIPE)


@contextmanager
def served(model: Path, flags: list[str]) -> Iterator[str]:
    """Start the runner and give the address that it listens on; it must end cleanly at SIGTERM."""
    command = [*RUNNER, "--model", str(model), *COMPARABLE, *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        try:
            assert process.stderr is not None
            ready = next((found for line in process.stderr if (found := re.search(r"\[ready\] port=(\d+)", line))), None)
            assert ready is not None, f"it ended with {process.wait(PATIENCE_S)}"
            yield f"http://127.0.0.1:{ready[1]}"
            process.send_signal(signal.SIGTERM)
            _, last = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, last
        finally:
            process.kill()


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_greedy_ids_are_the_prescribed_replies_with_every_drafter(tiny: Fixture, drafter: str) -> None:
    name = tiny.recipe.partition("@")[0]
    draft = twin(tiny, f"{name}-draft+gguf") / "model.gguf"
    got, num_drafted = {}, 0
    with served(twin(tiny, f"{name}+gguf") / "model.gguf", [word.format(draft=draft) for word in DRAFTERS[drafter]]) as url:
        for stream in tiny.streams:
            body = {
                "prompt": list(stream.prompt_ids),
                "n_predict": len(stream.reply_ids),
                "temperature": 0,
                "return_tokens": True,
            }
            answer = requests.post(f"{url}/completion", json=body, timeout=PATIENCE_S).json()
            got[stream.name] = tuple(answer["tokens"])
            num_drafted += answer["timings"].get("draft_n", 0)
    assert got == {stream.name: stream.reply_ids for stream in tiny.streams}
    assert (num_drafted > 0) is (drafter != "plain")


def recorded(subject: str, *checks: str) -> Run:
    return record(GateOptions(subject=subject, checks=checks, traced=False))


@pytest.fixture(scope="module")
def run() -> Run:
    return recorded("llama-server", *CHECKS)


@pytest.fixture(scope="module")
def judgement(run: Run) -> Judgement:
    return judged(run)


def test_nothing_counts_against_it_but_what_its_description_pins(judgement: Judgement) -> None:
    assert judgement.counted == ()
    assert judgement.verdict is Verdict.NOT_TRACED
    assert {result.check for result in judgement.results} >= set(CHECKS)


def test_every_engaged_arm_drafts_and_lands_drafts_and_the_untyped_one_never_does(run: Run) -> None:
    totals: dict[str, list[int]] = {}
    for one in run.recordings:
        for answer in one.answers:
            if answer.counts is not None:
                total = totals.setdefault(one.start.arm, [0, 0])
                total[0] += answer.counts.drafted
                total[1] += answer.counts.accepted
    for arm, facts in run.declared.arms.items():
        engages = facts.drafter != "none" and facts.expect == "engaged"
        assert all(total > 0 for total in totals[arm]) if engages else totals[arm] == [0, 0], arm
    assert sum(facts.drafter != "none" and facts.expect == "engaged" for facts in run.declared.arms.values()) >= 6
    assert ALONE in totals


@pytest.mark.parametrize("arm", ["ngram-simple", "draft-simple"])
def test_the_counts_of_a_drafter_that_is_known_are_predicted_exactly(judgement: Judgement, arm: str) -> None:
    (exact,) = [result for result in judgement.results if result.check == "exact-counts"]
    assert exact.examined[arm] > 0
    assert [one for one in exact.findings if not one.known] == []


@pytest.mark.parametrize(("fault", "check"), [(BOOKED, "context-end"), (NO_LOGPROBS, "logprobs-target")])
def test_the_two_published_faults_are_found_by_general_checks_and_named_with_their_shortest_request(
    run: Run, judgement: Judgement, fault: str, check: str
) -> None:
    assert any(one.check == check and one.known == fault for one in judgement.findings)
    (line,) = [line for line in known_lines(run, judgement) if line.startswith(f"XFAIL {fault} ({check})")]
    assert "shortest: " in line
    assert "https://github.com/ggml-org/llama.cpp/issues/" in line


def judged_with(run: Run, *faults: KnownFault) -> Judgement:
    return judged(msgspec.structs.replace(run, declared=msgspec.structs.replace(run.declared, known_faults=faults)))


def test_unpinned_the_same_answers_are_mismatches(run: Run) -> None:
    kept = tuple(one for one in run.declared.known_faults if one.id not in (BOOKED, NO_LOGPROBS))
    got = judged_with(run, *kept)
    assert got.verdict is Verdict.MISMATCH
    assert {"context-end", "logprobs-target"} <= {one.check for one in got.counted}


def test_a_fault_pinned_on_an_arm_that_has_it_not_is_known_gone(run: Run) -> None:
    faults = tuple(
        msgspec.structs.replace(one, arms=(*one.arms, "draft-untyped")) if one.id == BOOKED else one
        for one in run.declared.known_faults
    )
    got = judged_with(run, *faults)
    assert got.verdict is Verdict.KNOWN_GONE
    assert [(one.check, one.start) for one in got.counted] == [("known-faults", "context-36/draft-untyped")]


def test_an_arm_that_never_drafts_is_not_engaged_where_its_description_does_not_say_so(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text('name = "odd"\nextends = "llama-server"\narms.draft-untyped.expect = "engaged"\n')
    got = judged(recorded(str(path), "drafts-made"))
    assert got.verdict is Verdict.NOT_ENGAGED
    assert {one.start for one in got.counted} == {"draft-untyped"}


def test_with_its_defaults_whatever_differs_is_a_near_tie_within_the_band_of_its_own_plain_arm() -> None:
    run = recorded("llama-server-defaults", "same-sampled-reply", "near-ties")
    got = judged(run)
    (notes,) = (result.notes for result in got.results if result.check == "near-ties")
    assert "0 FAULT, 0 VOID, 0 UNSTABLE" in notes[0]
    assert {one.check for one in got.counted} <= {"near-ties"}
    assert all(one.message.startswith("NEAR-TIE, one of ") for one in got.counted)
    budget = msgspec.structs.replace(run.declared, near_tie_budget=len(got.counted))
    assert judged(msgspec.structs.replace(run, declared=budget)).verdict is Verdict.NOT_TRACED
