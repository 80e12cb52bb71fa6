"""A whole run on the toy subject, from the catalogue's files to the exit code and the folder."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.errors import MachineError
from harness.mutation.arena import Ground
from harness.mutation.entry import Entry
from harness.mutation.matrix import ExitCode
from harness.mutation.mutate import Options, Surroundings, mutate
from harness.records.outcome import MutationReport
from harness.records.plan import Plan
from harness.records.recording import Run
from tests.harness.mutation import toy
from tests.harness.mutation.toy import ToyArena, entry

TWICE = "return str(number + number)"
REPLY = entry(TWICE, "return str(number)", "same-reply", "wide", name="wrong-reply")
COUNTS = entry('return number if arm == "lookup" else 0', "return 0", "exact-counts", name="no-counts")
SURVIVOR = entry("return str(2 * number)", "return str(number * 2)", "same-reply", name="equivalent")
STALE = entry("nowhere to be found", "x", "same-reply", name="stale")
TIMEOUT = entry(TWICE, "os._exit(7)", "same-reply", name="endless")
UNREACHED = entry('return "nobody calls this"', "return 1", "same-reply", name="unreached")
FORK_ONLY = entry(
    TWICE, 'return str(number + number + (os.environ["TOY_IS_FRESH"] == "0"))', "same-reply", "exact-counts", name="flaky"
)


def run(root: Path, *mutants: Entry, arenas: tuple[Any, ...] = (), around: Any = None, **options: Any) -> ExitCode:
    toy.source(root)
    if mutants:
        toy.catalogue(root, *mutants)
    return mutate(Options(subject="toy", root=root, **options), toy.world(root, *arenas), around or toy.surroundings())


def outcomes(root: Path) -> dict[str, str]:
    (path,) = root.glob("reports/*/outcomes.json")
    files = json.loads(path.read_text())["files"].values()
    return {mutant["id"]: mutant["outcome"] for file in files for mutant in file["mutants"]}


def ours(root: Path) -> Any:
    (path,) = root.glob("reports/*/outcomes.json")
    return json.loads(path.read_text())["draftproof"]


def test_a_catalogue_that_proves_every_check_ends_with_0(tmp_path: Path) -> None:
    around = toy.surroundings()
    assert run(tmp_path, REPLY, COUNTS, around=around) is ExitCode.PROVEN
    assert outcomes(tmp_path) == {"wrong-reply": "KILLED", "no-counts": "KILLED"}
    assert [probe["id"] for probe in ours(tmp_path)["probes"]] == [
        "apply-revert",
        "clean-twice",
        "neutral",
        "forced-fail",
        "working-tree",
    ]
    assert all(probe["holds"] for probe in ours(tmp_path)["probes"])
    assert "PROVEN (0): 2 of 2 killed by their named checks; 2 KILLED; 0 unproven checks; 5 of 5 probes hold" in toy.printed(
        around
    )


def test_a_check_that_no_killed_mutant_names_is_the_headline(tmp_path: Path) -> None:
    around = toy.surroundings()
    assert run(tmp_path, REPLY, around=around) is ExitCode.UNPROVEN
    assert "unproven check: exact-counts" in toy.printed(around)


@pytest.mark.parametrize(
    ("extra", "outcome", "code"),
    [
        (SURVIVOR, "SURVIVED", ExitCode.UNPROVEN),
        (UNREACHED, "NOT-REACHED", ExitCode.UNPROVEN),
        (STALE, "STALE", ExitCode.CATALOGUE),
        (TIMEOUT, "TIMEOUT", ExitCode.UNDECIDED),
        (FORK_ONLY, "FLAKY", ExitCode.UNDECIDED),
    ],
)
def test_one_mutant_that_is_no_kill_decides_the_exit_code_and_stops_no_other(
    tmp_path: Path, extra: Entry, outcome: str, code: ExitCode
) -> None:
    assert run(tmp_path, extra, REPLY, COUNTS) is code
    assert outcomes(tmp_path) == {extra.id: outcome, "wrong-reply": "KILLED", "no-counts": "KILLED"}


def test_an_accepted_survivor_passes_until_its_acceptance_expires(tmp_path: Path) -> None:
    toy.catalogue(tmp_path, SURVIVOR, REPLY, COUNTS)
    path = tmp_path / "mutants" / "toy" / "accepted.toml"
    path.write_text('[[accepted]]\nid = "equivalent"\nreason = "the same"\nexpires = 2030-01-02\n')
    assert run(tmp_path) is ExitCode.PROVEN
    assert outcomes(tmp_path)["equivalent"] == "ACCEPTED"
    later = toy.surroundings()
    tomorrow = type(later)(later.console, later.now + datetime.timedelta(days=1), {})
    assert run(tmp_path, around=tomorrow) is ExitCode.CATALOGUE
    assert "expired on 2030-01-02" in toy.printed(tomorrow)


def test_an_acceptance_does_not_hide_a_kill_or_a_wrong_killer(tmp_path: Path) -> None:
    wrong = entry(TWICE, "return str(number)", "exact-counts", name="wrong")
    toy.catalogue(tmp_path, wrong, REPLY, COUNTS)
    text = "".join(f'[[accepted]]\nid = "{name}"\nreason = "r"\nexpires = 2030-01-02\n' for name in ("wrong", "no-counts"))
    (tmp_path / "mutants" / "toy" / "accepted.toml").write_text(text)
    assert run(tmp_path) is ExitCode.UNPROVEN
    assert outcomes(tmp_path) == {"wrong": "WRONG-KILLER", "wrong-reply": "KILLED", "no-counts": "KILLED"}


class RedArena(ToyArena):
    """A column whose subject lies without any fault planted."""

    def record(self, plan: Plan, ground: Ground) -> Run:
        assert ground.overlay is not None
        engine = ground.overlay / "toy" / "engine.py"
        engine.write_text(engine.read_text().replace(TWICE, "return str(number)"))
        return super().record(plan, ground)


def test_a_red_baseline_ends_the_run_before_the_first_mutant(tmp_path: Path) -> None:
    around = toy.surroundings()
    assert run(tmp_path, REPLY, STALE, arenas=(RedArena(), RedArena()), around=around) is ExitCode.BASELINE_RED
    assert outcomes(tmp_path) == {"stale": "STALE"}
    assert "probe clean-twice: FAILS: same-reply at lookup n=3: text differs" in toy.printed(around)


def test_one_of_two_clean_runs_that_is_red_is_enough(tmp_path: Path) -> None:
    class FreshRed(RedArena):
        def record(self, plan: Plan, ground: Ground) -> Run:
            return super().record(plan, ground) if ground.fresh else ToyArena.record(self, plan, ground)

    assert run(tmp_path, REPLY, COUNTS, arenas=(FreshRed(), FreshRed())) is ExitCode.BASELINE_RED


def test_a_working_tree_that_is_written_to_is_found_out(tmp_path: Path) -> None:
    class Meddler(ToyArena):
        def record(self, plan: Plan, ground: Ground) -> Run:
            (tmp_path / "toy" / "left.txt").write_text("x")
            return super().record(plan, ground)

    assert run(tmp_path, REPLY, COUNTS, arenas=(Meddler(),)) is ExitCode.BASELINE_RED
    assert [probe["id"] for probe in ours(tmp_path)["probes"] if not probe["holds"]] == ["working-tree"]


def test_a_missing_forced_fail_probe_is_a_fault_of_the_catalogue(tmp_path: Path) -> None:
    toy.catalogue(tmp_path, REPLY, COUNTS, forced_fail="")
    assert run(tmp_path) is ExitCode.CATALOGUE


def test_only_and_check_select_and_make_no_claim_about_other_checks(tmp_path: Path) -> None:
    assert run(tmp_path, REPLY, COUNTS, SURVIVOR, only=("wrong-reply",)) is ExitCode.PROVEN
    assert outcomes(tmp_path) == {"wrong-reply": "KILLED"}
    assert run(tmp_path / "2", REPLY, COUNTS, SURVIVOR, checks=("exact-counts",)) is ExitCode.PROVEN
    assert outcomes(tmp_path / "2") == {"no-counts": "KILLED"}


def test_full_leaves_no_cell_of_the_matrix_open(tmp_path: Path) -> None:
    assert run(tmp_path, REPLY, COUNTS, full=True) is ExitCode.PROVEN
    assert ours(tmp_path)["numNotAsked"] == 0
    assert run(tmp_path / "2", REPLY, COUNTS) is ExitCode.PROVEN
    assert ours(tmp_path / "2")["numNotAsked"] == 3


def test_the_list_runs_nothing_and_shows_what_cannot_be_run(tmp_path: Path) -> None:
    around = toy.surroundings()
    arena = ToyArena()
    assert run(tmp_path, REPLY, STALE, arenas=(arena,), around=around, show_list=True) is ExitCode.CATALOGUE
    assert "wrong-reply  seed  toy/engine.py:11  killers same-reply, wide" in toy.printed(around)
    assert "stale  seed  toy/engine.py:1  STALE: toy/engine.py: the anchor is nowhere" in toy.printed(around)
    assert (arena.grounds, list(tmp_path.glob("reports/*"))) == ([], [])


class Interrupted(ToyArena):
    """A column that breaks down after so many recordings."""

    left = 5

    def record(self, plan: Plan, ground: Ground) -> Run:
        self.left -= 1
        if self.left < 0:
            raise MachineError("the power went")
        return super().record(plan, ground)


def test_a_run_that_was_cut_short_is_resumed_and_runs_only_what_is_missing(tmp_path: Path) -> None:
    around = toy.surroundings()
    assert run(tmp_path, REPLY, COUNTS, SURVIVOR, arenas=(Interrupted(),), around=around) is ExitCode.INTERNAL
    assert "MachineError: the power went" in toy.printed(around)
    (folder,) = (tmp_path / "reports").iterdir()
    done = [json.loads(line)["result"]["id"] for line in (folder / "journal.jsonl").read_text().splitlines()[1:]]
    assert done == ["wrong-reply"]
    with (folder / "journal.jsonl").open("ab") as stream:
        stream.write(b'{"type":"result","res')
    arena = ToyArena()
    later = toy.surroundings()
    assert run(tmp_path, arenas=(arena,), around=later, resume=folder) is ExitCode.UNPROVEN
    assert "2 mutants to run, 1 known from before" in toy.printed(later)
    assert outcomes(tmp_path) == {"wrong-reply": "KILLED", "no-counts": "KILLED", "equivalent": "SURVIVED"}


def test_a_changed_entry_is_run_again_when_a_run_is_resumed(tmp_path: Path) -> None:
    assert run(tmp_path, REPLY, COUNTS, SURVIVOR, arenas=(Interrupted(),)) is ExitCode.INTERNAL
    (folder,) = (tmp_path / "reports").iterdir()
    harmless = entry(TWICE, "return str(2 * number)", "same-reply", "wide", name="wrong-reply")
    around = toy.surroundings()
    run(tmp_path, harmless, COUNTS, SURVIVOR, around=around, resume=folder)
    assert "3 mutants to run" in toy.printed(around)
    assert outcomes(tmp_path)["wrong-reply"] == "SURVIVED"


def test_a_changed_source_is_not_resumed(tmp_path: Path) -> None:
    assert run(tmp_path, REPLY, COUNTS, SURVIVOR, arenas=(Interrupted(),)) is ExitCode.INTERNAL
    (folder,) = (tmp_path / "reports").iterdir()
    (tmp_path / "toy" / "more.py").write_text("x = 1\n")
    around = toy.surroundings()
    assert run(tmp_path, around=around, resume=folder) is ExitCode.USAGE
    assert "begin a new run" in toy.printed(around)


def test_a_run_leaves_a_log_and_a_diff_per_mutant_junit_and_a_summary(tmp_path: Path) -> None:
    run(tmp_path, REPLY, COUNTS, STALE)
    (folder,) = (tmp_path / "reports").iterdir()
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    logs = [f"{kind}/{name}" for kind, end in (("diffs", "diff"), ("logs", "log")) for name in _each(end)]
    probes = [f"logs/probe-{name}.log" for name in ("apply-revert", "clean-twice", "neutral", "forced-fail", "working-tree")]
    assert names == sorted([*logs, *probes, "journal.jsonl", "junit.xml", "outcomes.json", "summary.txt"])
    assert "same-reply at lookup n=3: text differs" in (folder / "logs" / "probe-forced-fail.log").read_text()
    assert "+        return str(number)" in (folder / "diffs" / "wrong-reply.diff").read_text()


def _each(end: str) -> list[str]:
    return [f"{name}.{end}" for name in ("no-counts", "stale", "wrong-reply")]


def test_github_is_told_by_annotations_and_a_job_summary(tmp_path: Path) -> None:
    step = tmp_path / "step.md"
    step.write_text("before\n")
    around = toy.surroundings(GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(step))
    run(tmp_path, REPLY, COUNTS, STALE, around=around)
    said = [line for line in toy.printed(around).splitlines() if line.startswith("::")]
    assert len(said) == 1
    assert said[0].startswith("::error file=toy/engine.py,line=1,title=STALE stale::A fault.: toy/engine.py: the anchor")
    assert step.read_text().startswith("before\n### draftproof mutate toy: CATALOGUE (5)\n")
    quiet = toy.surroundings()
    run(tmp_path / "2", REPLY, COUNTS, STALE, around=quiet)
    assert not [line for line in toy.printed(quiet).splitlines() if line.startswith("::")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"only": ("nobody",)}, "--only nobody: no such mutant"),
        ({"checks": ("nothing",)}, "--check nothing: the killer of no mutant"),
        ({"in_diff": "nowhere"}, "--in-diff nowhere: git says"),
        ({"resume": Path("nowhere")}, "--resume nowhere: holds no journal.jsonl"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    around = toy.surroundings()
    assert run(tmp_path, REPLY, around=around, **options) is ExitCode.USAGE
    assert told in toy.printed(around)


def test_a_subject_without_a_catalogue_is_told(tmp_path: Path) -> None:
    around = toy.surroundings()
    assert mutate(Options(subject="nobody", root=tmp_path), toy.world(tmp_path), around) is ExitCode.USAGE
    assert "no such folder" in toy.printed(around)


def test_a_selection_of_nothing_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.mutation.mutate.touched_lines", lambda *_: {})
    assert run(tmp_path, REPLY, in_diff="HEAD") is ExitCode.NOTHING_RAN


def test_a_fault_of_ours_ends_with_70(tmp_path: Path) -> None:
    class Broken(ToyArena):
        def record(self, plan: Plan, ground: Ground) -> Run:
            raise ZeroDivisionError(f"ours: {plan.tier} {ground.fresh}")

    around = toy.surroundings()
    assert run(tmp_path, REPLY, arenas=(Broken(),), around=around) is ExitCode.INTERNAL
    assert "ZeroDivisionError: ours" in toy.printed(around)


def test_lint_alone_names_what_cannot_be_run_and_runs_nothing(tmp_path: Path) -> None:
    around, arena = toy.surroundings(), ToyArena()
    assert run(tmp_path, STALE, REPLY, arenas=(arena,), around=around, lint_only=True) is ExitCode.CATALOGUE
    assert "stale: STALE: " in toy.printed(around)
    assert "2 mutants read, 1 of them cannot be run" in toy.printed(around)
    assert (arena.plans, list(tmp_path.glob("reports/*"))) == ([], [])


def test_lint_alone_of_a_sound_catalogue_ends_with_0(tmp_path: Path) -> None:
    around = toy.surroundings()
    assert run(tmp_path, REPLY, COUNTS, around=around, lint_only=True) is ExitCode.PROVEN
    assert toy.printed(around) == "2 mutants read, 0 of them cannot be run\n"


def test_another_face_is_handed_the_report_that_the_folder_holds(tmp_path: Path) -> None:
    kept: list[MutationReport] = []
    plain = toy.surroundings()
    run(tmp_path, REPLY, SURVIVOR, around=Surroundings(plain.console, plain.now, {}, kept.append))
    (report,) = kept
    assert {result.id: result.outcome.value for result in report.results} == outcomes(tmp_path)
    assert report.num_run == 2
    assert report.cpu_seconds > 0


def test_mutants_that_ask_for_more_tokens_begin_first(tmp_path: Path) -> None:
    long = entry(TWICE, "return str(number)", "same-reply", "exact-counts", name="zz-long", arms=("lookup", "plain"))
    short = entry(TWICE, "return str(number + 1)", "same-reply", name="aa-short", arms=("plain",))
    around = toy.surroundings()
    run(tmp_path, short, long, arenas=(ToyArena(),), around=around)
    printed = toy.printed(around)
    assert printed.index("zz-long") < printed.index("aa-short")


def test_the_summary_says_how_many_mutants_a_minute_and_what_each_cost(tmp_path: Path) -> None:
    around = toy.surroundings()
    run(tmp_path, REPLY, COUNTS, around=around)
    assert re.search(
        r"^2 mutants in \d+\.\d s, \d+ a minute; \d+ CPU s in all, the probes with them: \d+\.\d\d", toy.printed(around), re.M
    )
