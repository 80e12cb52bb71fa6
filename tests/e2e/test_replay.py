"""A kept finding, asked again of real processes: it repeats with its fault planted, and does not without."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from harness.__main__ import app
from harness.fabricate.store import fabricate
from harness.gate import DEFAULT_RECIPE, GateOptions, explained, judged, record
from harness.mutation.recipes import recipe_files
from harness.plans.requests import completion
from harness.plans.starts import LOOKUP, PLAIN
from harness.records.files import write_json
from harness.records.finding import Finding, Verdict
from harness.records.plan import Plan, Tier
from harness.records.replay import Attempt, Mutation, PlantedEdit, Replay
from harness.replay import keep, replayed
from tests.harness.checks.ideal import altered

pytestmark = pytest.mark.e2e

FIND = "if draft != int(bounded_argmax(rows[index], self._base.vocab_bound)):"
UNSEEN = Mutation("unseen", (PlantedEdit("forward_serve/decoding/loop.py", FIND, f"if index and {FIND[3:]}"),), {})


def kept(path: Path, mutation: Mutation | None) -> Path:
    """Keep a finding on one reply of the lookup arm."""
    fixture = fabricate(DEFAULT_RECIPE)
    request = completion(fixture.stream("decoy-1"), 12, "same-reply")
    starts = tuple(msgspec.structs.replace(start, requests=(request,)) for start in (PLAIN, LOOKUP))
    plan = Plan(Tier.GATE, fixture.recipe, starts, ("same-reply",))
    finding = Finding("same-reply", Verdict.MISMATCH, "lookup", request.id, "ids differs")
    recipes = recipe_files(DEFAULT_RECIPE)
    write_json(path, Replay("forward-serve", recipes, finding, (Attempt("alone", plan),), False, mutation))
    return path


def test_a_draft_accepted_unseen_repeats_with_its_divergence_and_exit_2_and_the_engine_as_it_is_exits_0(tmp_path: Path) -> None:
    planted = CliRunner().invoke(app, ["replay", str(kept(tmp_path / "planted.json", UNSEEN))])
    assert (planted.exit_code, planted.stdout.splitlines()[0]) == (2, "alone: 2 starts, 2 requests")
    assert planted.stdout.splitlines()[-1] == "MISMATCH: it repeats"
    assert "committed by round 0, slot 1 (draft 1)" in planted.stdout
    assert "(the oracle's float64 forward)" in planted.stdout
    clean = CliRunner().invoke(app, ["replay", str(kept(tmp_path / "clean.json", None)), "--json"])
    assert (clean.exit_code, msgspec.json.decode(clean.stdout)) == (
        0,
        {"attempt": "alone", "verdict": "LOSSLESS", "findings": []},
    )


@pytest.mark.llama
def test_a_finding_on_llama_servers_reply_is_kept_with_its_divergence_and_does_not_repeat_on_the_server_itself(
    tmp_path: Path,
) -> None:
    pytest.importorskip("xllamacpp", reason="needs the extra llama")
    options = GateOptions(subject="llama-server", checks=("same-reply",), traced=False)
    run = altered(record(options), "ngram-simple", "hit-1/24", reply={"ids": (1, 2, 3), "text": "abc"})
    judgement = keep(run, explained(run, judged(run), DEFAULT_RECIPE), options, tmp_path)
    (finding,) = judgement.counted
    assert finding.divergence is not None
    assert finding.divergence.gap is not None
    assert finding.divergence.spot_unknown == "the answer lists no rounds"
    (file,) = tmp_path.iterdir()
    assert {outcome.verdict for outcome in replayed(file)} == {Verdict.LOSSLESS}
