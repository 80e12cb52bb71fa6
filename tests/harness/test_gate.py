"""Expectations of a recorded run, computed anew."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness import gate
from harness.errors import UsageError
from harness.plans.requests import completion
from harness.plans.starts import PLAIN
from harness.records.files import write_json
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Plan, Tier
from harness.records.recording import ArmFacts, Declared, Run
from tests.harness.oracle.golden import HELLO, unpacked

RECIPE = Path("tiny.toml")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A run that was recorded on the golden container, which is what the recipe fabricates."""
    fixture = Fixture("tiny@golden", str(unpacked(tmp_path / "model")), {}, (), 256, {})
    monkeypatch.setattr(gate, "fabricate", lambda _recipe: fixture)
    request = completion(Stream("hello", "main", HELLO, ()), 2, "oracle-reply")
    plan = Plan(Tier.GATE, "tiny@golden", (msgspec.structs.replace(PLAIN, requests=(request,)),), ("oracle-reply",))
    return Run(plan, "toy", Declared(arms={"plain": ArmFacts()}), ())


def test_a_run_is_completed_from_the_files_of_its_own_recipe(run: Run) -> None:
    got = gate.recomputed(run, RECIPE)
    assert got.expectations is not None
    (saying,) = got.expectations.sayings
    assert (saying.choices[0].token, len(saying.choices)) == (14, 2)
    assert msgspec.structs.replace(got, expectations=None) == run


def test_a_run_of_another_recipe_is_refused(run: Run) -> None:
    other = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, recipe="tiny@other"))
    with pytest.raises(UsageError, match=r"tiny\.toml: fabricates tiny@golden, the run was recorded on tiny@other"):
        gate.recomputed(other, RECIPE)


def test_a_plan_that_is_given_is_asked_as_it_is_and_on_its_own_recipe_alone(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_json(path, run.plan)
    fixture = Fixture("tiny@golden", "", {}, (), 256, {})
    assert gate.plan_of(gate.GateOptions(plan=path), fixture) == run.plan
    with pytest.raises(UsageError, match=r"plan\.json: recipe=tiny@golden is not the tiny@other that is fabricated"):
        gate.plan_of(gate.GateOptions(plan=path), msgspec.structs.replace(fixture, recipe="tiny@other"))
