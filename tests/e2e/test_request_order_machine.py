"""Random sequences of requests on real subjects, and proof that a fault between requests is found and shrunk to its shortest."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from harness.defaults import ROOT
from harness.plans.starts import CACHED_DRAFT, CACHED_LOOKUP, DRAFT, LOOKUP
from harness.records.files import read_json
from harness.records.finding import Verdict
from harness.records.replay import Replay
from harness.replay import replayed
from tests.e2e.order_machine import Bench, OrderMachine

pytestmark = pytest.mark.e2e

NUM_EXAMPLES = int(os.environ.get("ORDER_SEQUENCES", "2"))  # of each arm; nightly sets more
NUM_STEPS = int(os.environ.get("ORDER_STEPS", "5"))
ALONE = {"reference": None}  # an arm without a cache is compared with itself, undisturbed
ARMS = {
    "lookup": msgspec.structs.replace(LOOKUP, **ALONE),
    "draft": msgspec.structs.replace(DRAFT, **ALONE),
    "cached-lookup": msgspec.structs.replace(CACHED_LOOKUP, parameters={"k": 4}),
    "cached-draft": msgspec.structs.replace(CACHED_DRAFT, parameters={}),
}
QUICK = settings(
    max_examples=NUM_EXAMPLES,
    stateful_step_count=NUM_STEPS,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def machine_of(bench: Bench) -> type[OrderMachine]:
    return type("Machine", (OrderMachine,), {"bench": bench})


@pytest.mark.parametrize("arm", ARMS)
def test_no_sequence_of_requests_changes_what_a_probe_says_or_how_it_gets_there(arm: str, tmp_path: Path) -> None:
    with Bench(ARMS[arm], tmp_path, ROOT / "reports" / f"request-order-{arm}.json") as bench:
        run_state_machine_as_test(machine_of(bench), settings=QUICK)


def faulty(folder: Path, file: str, find: str, replace: str) -> Path:
    """Copy the engine with one fault in it."""
    overlay = folder / "overlay"
    shutil.copytree(ROOT / "forward_serve", overlay / "forward_serve", ignore=shutil.ignore_patterns("__pycache__"))
    text = (overlay / file).read_text()
    assert text.count(find) == 1
    (overlay / file).write_text(text.replace(find, replace))
    return overlay


def test_an_index_that_survives_its_request_is_shrunk_to_one_request_and_the_probe_and_repeats_from_its_file(
    tmp_path: Path,
) -> None:
    forgets = "        self._stream = []\n        self._last_ends = [{} for _ in range(LONGEST_SUFFIX)]\n        self._last_word"
    overlay = faulty(tmp_path, "forward_serve/decoding/lookup.py", forgets, "        self._stream = []\n        self._last_word")
    path = tmp_path / "replay.json"
    with Bench(ARMS["lookup"], tmp_path, path, overlay) as bench, pytest.raises(AssertionError, match="request-order"):
        run_state_machine_as_test(machine_of(bench), settings=settings(QUICK, max_examples=20, derandomize=True))
    (attempt,) = read_json(path, Replay).attempts
    requests = attempt.plan.start("sequence/lookup").requests
    assert (len(requests), requests[-1].role) == (2, "probe")
    assert [outcome.verdict for outcome in replayed(path)] == [Verdict.LOSSLESS]  # the engine as it is holds on it
