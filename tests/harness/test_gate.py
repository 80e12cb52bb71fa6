"""Expectations of a recorded run, computed anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import gate
from harness.errors import UsageError
from harness.oracle.container64 import read_container
from harness.oracle.qwen3_64 import Qwen3
from harness.plans.requests import completion
from harness.plans.starts import PLAIN
from harness.records.divergence import Gap, GapSource
from harness.records.finding import CheckResult, Finding, Judgement, Verdict
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Plan, Tier
from harness.records.recording import Answer, ArmFacts, Declared, Recording, Reply, Run, Trace
from harness.subjects.description import load_description
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


def test_what_one_run_computed_the_next_one_knows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "require", lambda *_: None)
    monkeypatch.setattr(gate, "record_plan", lambda *_, **__: ())
    options = gate.GateOptions(recipe=RECIPE, traced=False)
    first = gate.record(options, plan=run.plan)
    monkeypatch.setattr("harness.oracle.expect.read_container", lambda _: pytest.fail("a model was read"))
    second = gate.record(options, plan=run.plan)
    assert (first.remembers, second.remembers) == (False, True)
    assert second.expectations == first.expectations is not None
    assert first.expectations is not None
    assert first.expectations.sayings


@pytest.mark.parametrize("options", [{"shuffle": 3}, {"checks": ("oracle-reply",)}], ids=["shuffled", "some-checks"])
def test_what_is_asked_only_once_is_not_remembered(run: Run, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "require", lambda *_: None)
    monkeypatch.setattr(gate, "record_plan", lambda *_, **__: ())
    for _ in range(2):
        assert not gate.record(gate.GateOptions(recipe=RECIPE, traced=False, **options), plan=run.plan).remembers


def test_a_run_that_expects_nothing_of_a_model_remembers_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "require", lambda *_: None)
    monkeypatch.setattr(gate, "record_plan", lambda *_, **__: ())
    empty = msgspec.structs.replace(run.plan, starts=(PLAIN,))
    assert not any(gate.record(gate.GateOptions(recipe=RECIPE, traced=False), plan=empty).remembers for _ in range(2))


def test_a_run_of_another_recipe_is_refused(run: Run) -> None:
    other = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, recipe="tiny@other"))
    with pytest.raises(UsageError, match=r"tiny\.toml: fabricates tiny@golden, the run was recorded on tiny@other"):
        gate.recomputed(other, RECIPE)


def test_a_gap_is_computed_from_the_files_of_the_runs_own_recipe_alone(run: Run) -> None:
    reply = Reply("cmpl-1", "/x", (14, 87), "length", None, 5, 2)
    (start,) = run.plan.starts
    lookup = msgspec.structs.replace(start, id="lookup", arm="lookup", reference="plain")
    answers = {"plain": reply, "lookup": msgspec.structs.replace(reply, text="/y", ids=(14, 88))}
    recordings = tuple(
        Recording("toy", one, (Answer(one.requests[0].id, 200, reply=answers[one.id]),), Trace(traced=True), (), None)
        for one in (start, lookup)
    )
    plan = msgspec.structs.replace(run.plan, starts=(start, lookup))
    whole = msgspec.structs.replace(
        run, plan=plan, recordings=recordings, declared=Declared({"plain": ArmFacts(), "lookup": ArmFacts("lookup")})
    )
    finding = Finding("same-reply", Verdict.MISMATCH, "lookup", start.requests[0].id, "ids differs", (14, 87), (14, 88), 1)
    judgement = Judgement(Verdict.MISMATCH, (CheckResult("same-reply", {"lookup": 1}, (finding,)),))

    (got,) = gate.explained(whole, judgement, RECIPE).findings
    assert got.divergence is not None
    assert got.divergence.gap is not None
    row = Qwen3(read_container(gate.Located(gate.fabricate(RECIPE)).model("tiny"))).forward([(*HELLO, 14)])[0].scores[-1]
    first, second = sorted(range(256), key=lambda token: -row[token])[:2]
    assert got.divergence.gap == Gap(GapSource.FORWARD, str(first), str(second), row[first] - row[second], row[first] - row[88])

    for recipe, of in ((None, whole), (RECIPE, msgspec.structs.replace(whole, plan=msgspec.structs.replace(plan, recipe="o@1")))):
        (got,) = gate.explained(of, judgement, recipe).findings
        assert got.divergence is not None
        assert (got.divergence.gap, got.divergence.gap_unknown) == (None, "no forward was computed there")


@pytest.mark.parametrize(("parallel", "cores"), [(True, (0, 1)), (False, (0,))])
def test_arms_that_may_not_live_side_by_side_are_asked_in_one_column(
    parallel: bool, cores: tuple[int, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def record_plan(*_arguments: object, **settings: object) -> tuple[()]:
        seen.append(settings["cores"])
        return ()

    monkeypatch.setattr(gate, "record_plan", record_plan)
    description = msgspec.structs.replace(load_description("forward-serve"), parallel_arms=parallel)
    gate.asked(run.plan, gate.fabricate(RECIPE), description, traced=False)
    assert seen == [cores]
