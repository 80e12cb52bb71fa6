"""Kept findings: written beside a run, read again, and refused by name where they cannot be asked any more."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness import replay as replay_module
from harness.checks.judge import judge
from harness.checks.registry import ALL_CHECKS
from harness.errors import FileFormatError, UsageError
from harness.fabricate.recipe import read_recipe
from harness.gate import DEFAULT_RECIPE, GateOptions
from harness.mutation.recipes import recipe_files
from harness.records.files import read_json, write_json
from harness.records.finding import Finding, Verdict
from harness.records.plan import Plan
from harness.records.recording import Run
from harness.records.replay import Attempt, Mutation, PlantedEdit, Replay
from harness.replay import Replayed, attempt_text, keep, replayed
from tests.harness.checks import families
from tests.harness.checks.ideal import Fault

FAULTY = Fault.FIRST_UNSEEN


def a_run(*faults: Fault) -> Run:
    return families.run_of("exact-drafts", *faults, arms=("lookup",))


def a_replay(**changes: object) -> Replay:
    run = a_run(FAULTY)
    (finding, *_) = judge(run, ALL_CHECKS).findings
    attempts = (Attempt("alone", run.plan), Attempt("behind", run.plan))
    whole = Replay("forward-serve", recipe_files(DEFAULT_RECIPE), finding, attempts)
    return msgspec.structs.replace(whole, **changes)


def written(folder: Path, **changes: object) -> Path:
    path = folder / "finding.json"
    write_json(path, a_replay(**changes))
    return path


class Asking:
    """Stands for the subject: answers attempts in turn with given runs, and remembers the plans."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *runs: Run) -> None:
        self.plans: list[Plan] = []
        self.overlays: list[str] = []
        self._runs = list(runs)
        monkeypatch.setattr(replay_module, "asked", self.answer)
        monkeypatch.setattr(replay_module, "fabricate", lambda _recipe: None)
        monkeypatch.setattr(replay_module, "explained", lambda _run, judgement, _recipe: judgement)

    def answer(self, plan: Plan, *_: object, overlay: Path | None = None, **__: object) -> Run:
        self.plans.append(plan)
        if overlay is not None:
            self.overlays.append((overlay / "forward_serve" / "decoding" / "loop.py").read_text())
        return self._runs.pop(0)


def test_findings_of_a_run_name_the_files_that_repeat_them(tmp_path: Path) -> None:
    run = a_run(FAULTY)
    judgement = keep(run, judge(run, ALL_CHECKS), GateOptions(), tmp_path)
    files = sorted(tmp_path.iterdir())
    first = judgement.findings[0]
    assert first.repeat == f"draftproof replay {files[0]}"
    assert read_json(files[0], Replay).finding.check == first.check
    named = {finding.repeat for finding in judgement.findings if finding.repeat.startswith("draftproof replay")}
    assert len(named) == len(files)


def test_a_run_without_findings_leaves_no_folder(tmp_path: Path) -> None:
    run = a_run()
    judgement = judge(run, ALL_CHECKS)
    assert keep(run, judgement, GateOptions(), tmp_path / "none") == judgement
    assert not (tmp_path / "none").exists()


def test_an_attempt_that_repeats_ends_the_replay_with_the_findings_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asking = Asking(monkeypatch, a_run(FAULTY))
    path = written(tmp_path)
    (outcome,) = replayed(path)
    assert outcome.verdict is a_replay().finding.verdict
    assert {finding.repeat for finding in outcome.findings} == {f"draftproof replay {path}"}
    assert len(asking.plans) == 1


def test_an_attempt_that_does_not_repeat_is_followed_by_the_next_and_the_last_says_lossless(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Asking(monkeypatch, a_run(), a_run())
    assert [(outcome.attempt.name, outcome.verdict) for outcome in replayed(written(tmp_path))] == [
        ("alone", Verdict.LOSSLESS),
        ("behind", Verdict.LOSSLESS),
    ]


def died(run: Run) -> Run:
    """The run with a subject that died, and no answer that shows it."""
    recordings = tuple(msgspec.structs.replace(one, failure="died with status 1") for one in run.recordings)
    return msgspec.structs.replace(run, recordings=recordings)


def test_an_attempt_whose_subject_died_is_no_pass_and_ends_the_replay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Asking(monkeypatch, died(a_run()))
    (outcome,) = replayed(written(tmp_path))
    assert (outcome.verdict, outcome.findings) == (Verdict.DIED, ())
    assert attempt_text(outcome).splitlines()[-1] == "DIED: the subject failed before it could be told"


def test_an_attempt_that_looked_at_nothing_of_the_start_is_blind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    elsewhere = msgspec.structs.replace(a_replay().finding, start="gone/lookup")
    Asking(monkeypatch, a_run())
    (outcome,) = replayed(written(tmp_path, finding=elsewhere))
    assert outcome.verdict is Verdict.BLIND


def test_a_planted_fault_is_planted_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asking = Asking(monkeypatch, a_run(FAULTY))
    find = "if draft != int(bounded_argmax(rows[index], self._base.vocab_bound)):"
    edit = PlantedEdit("forward_serve/decoding/loop.py", find, f"if index and {find.removeprefix('if ')}")
    list(replayed(written(tmp_path, mutation=Mutation("unseen", (edit,), {}))))
    (text,) = asking.overlays
    assert edit.replace in text
    assert f"            {find}" not in text


def test_a_fault_whose_anchor_is_gone_is_refused_by_name(tmp_path: Path) -> None:
    edit = PlantedEdit("forward_serve/decoding/loop.py", "no such text", "x")
    with pytest.raises(UsageError, match=r"finding\.json: mutation=unseen cannot be planted any more: forward_serve/decoding/"):
        list(replayed(written(tmp_path, mutation=Mutation("unseen", (edit,), {}))))


@pytest.mark.parametrize("at", [0, 1], ids=["its-own", "a-companion's"])
def test_a_recipe_that_is_fabricated_as_other_bytes_is_refused_before_it_is(at: int, tmp_path: Path) -> None:
    recipes = list(recipe_files(DEFAULT_RECIPE))
    name = recipes[at].fabricated.partition("@")[0]
    recipes[at] = msgspec.structs.replace(recipes[at], fabricated=f"{name}@000")
    with pytest.raises(
        UsageError, match=rf"finding\.json: recorded on {name}@000, its recipe is fabricated as {name}@[0-9a-f]+ he"
    ):
        list(replayed(written(tmp_path, recipes=tuple(recipes))))


def test_a_recipe_is_written_nowhere_but_into_a_folder_of_its_own(tmp_path: Path) -> None:
    (own, *others) = recipe_files(DEFAULT_RECIPE)
    recipes = (msgspec.structs.replace(own, file="../tiny.toml"), *others)
    with pytest.raises(UsageError, match=r"finding\.json: recipes: file='\.\./tiny\.toml' is a path; use a file's name"):
        list(replayed(written(tmp_path, recipes=recipes)))


def test_a_recipe_carries_its_companions() -> None:
    files = recipe_files(DEFAULT_RECIPE)
    assert files[0].file == "tiny.toml"
    assert {one.file for one in files[1:]} == set(read_recipe(DEFAULT_RECIPE).companions) != set()
    assert all((DEFAULT_RECIPE.parent / one.file).read_text() == one.text for one in files)


def test_a_check_that_nobody_knows_is_refused_by_name(tmp_path: Path) -> None:
    finding = Finding("no-such-law", Verdict.MISMATCH, "lookup", "", "x")
    with pytest.raises(UsageError, match=r"finding\.json: check=no-such-law is not known here"):
        list(replayed(written(tmp_path, finding=finding)))


def test_a_file_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "finding.json"
    path.write_text("{}")
    with pytest.raises(FileFormatError, match=r"finding\.json: .*subject"):
        list(replayed(path))


def test_an_attempt_as_text_says_what_was_asked_and_escapes_what_a_subject_said() -> None:
    run = a_run(FAULTY)
    finding = msgspec.structs.replace(a_replay().finding, message="\x1b[2J")
    text = attempt_text(Replayed(a_replay().attempts[0], died(run), Verdict.MISMATCH, (finding,)))
    lines = text.splitlines()
    num_requests = sum(len(start.requests) for start in run.plan.starts)
    assert lines[0] == f"alone: {len(run.plan.starts)} starts, {num_requests} requests"
    assert lines[-1] == "MISMATCH: it repeats"
    assert "\x1b" not in text
