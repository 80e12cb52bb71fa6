"""The same faults through `draftproof mutate` and through cosmic-ray with the gate as its tests. Run by hand:

    python -m benchmarks.mutation_tools --cosmic-ray PYTHON

PYTHON is an interpreter in whose environment `pip install cosmic-ray==8.7.0` was run; it needs nothing of this project. Both
tools work in one copy of it, one mutant at a time, and plant syntactically equal trees. Seconds are wall seconds; CPU seconds are
those of a tool and of every process that was waited for below it. About four minutes on two free cores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HELPER = Path(__file__).with_name("cosmic_session.py")
FOLDERS = ("forward_serve", "harness", "fixtures", "mutants", "tests")  # what both tools read, with pyproject.toml
CATALOGUE = "benchmark"  # our faults, as a folder of mutants/ in the copy
ENGINE = "forward_serve/decoding/"
TIMEOUT_S = 600.0  # of one gate run
NOT_EXPRESSED = """\
What cosmic-ray has no words for:
- which check must fail: any failing test is a kill, so a broken start, or another check by luck, proves a check that is blind
- a fault of more than one place or line, a new file, a patch, a switch in the environment
- a subject: each mutant is one whole gate run, with every arm started anew
- its own controls: a neutral mutant that must survive, a lying subject on which each check must fail, a second clean run
- a survivor whose line never ran, told apart from one that ran; a run out of time, which it counts as killed
- a tree that is never written: it writes each mutant into the module itself, and puts it back if it lives to do so"""


@dataclass(frozen=True, slots=True)
class Fault:
    """One replacement of text, that occurs once, and the checks that must fail on it."""

    id: str
    file: str
    find: str
    replace: str
    killers: tuple[str, ...]

    def planted(self, text: str) -> str:
        """Return the module's text with the fault in it. Raises ValueError where its anchor is lost."""
        if text.count(self.find) != 1:
            raise ValueError(
                f"{self.id}: {self.find!r} occurs {text.count(self.find)} times in {self.file}; give text that occurs once"
            )
        return text.replace(self.find, self.replace)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took."""

    wall_s: float
    cpu_s: float
    output: str


FAULTS = (
    Fault(
        "exactly-at-the-bar",
        f"{ENGINE}fallback.py",
        "sum(self._recent) / window < self._below",
        "sum(self._recent) / window <= self._below",
        ("fallback-round",),
    ),
    Fault(
        "take-recorded",
        f"{ENGINE}loop.py",
        "self._record(num_accepted + 1)",
        "self._record(num_accepted + 0)",
        ("fallback-round",),
    ),
    Fault(
        "no-single-draft",
        f"{ENGINE}loop.py",
        "self._fallback.is_off or num_drafts < 1",
        "self._fallback.is_off or num_drafts < 2",
        ("exact-counts", "exact-drafts"),
    ),
    Fault(
        "stop-or-budget",
        f"{ENGINE}loop.py",
        "goes_on = self._emit(draft) and self._budget_left > 0",
        "goes_on = self._emit(draft) or self._budget_left > 0",
        ("stop-cut",),
    ),
    Fault(
        "copies-the-match-itself",
        f"{ENGINE}lookup.py",
        "self._stream[end + 1 : end + 1 + max_drafts]",
        "self._stream[end + 0 : end + 1 + max_drafts]",
        ("exact-drafts", "hit-miss-decoy"),
    ),
)


def copy_project(target: Path) -> None:
    """Copy what both tools read, and write our faults as a catalogue of its own."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "pyproject.toml", target)
    folder = target / "mutants" / CATALOGUE
    shutil.copytree(ROOT / "mutants" / "forward-serve" / "probes", folder / "probes")
    (folder / "source.toml").write_text('description = "forward-serve"\npackages = ["forward_serve"]\n')
    (folder / "faults.toml").write_text("\n".join(entry_of(fault) for fault in FAULTS))


def entry_of(fault: Fault) -> str:
    """Return a fault as an entry of a catalogue."""
    words = {
        "id": fault.id,
        "title": f"{fault.find} becomes {fault.replace}.",
        "why": "seed: an operator of an established tool",
        "kind": "seed",
        "file": fault.file,
        "find": fault.find,
        "replace": fault.replace,
        "killers": list(fault.killers),
    }
    return "\n".join(["[[mutant]]", *(f"{key} = {json.dumps(value)}" for key, value in words.items()), ""])


def timed(command: Sequence[str | Path], project: Path) -> Cost:
    """Run a command in the copy to its end, and return what it took with all that was waited for below it."""
    environment = {**os.environ, "PYTHONPATH": str(project), "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"}
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(word) for word in command], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: ended with {done.returncode}\n{done.stdout}{done.stderr}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall_s, cpu_s, done.stdout)


def run_draftproof(project: Path) -> tuple[Cost, dict[str, dict[str, Any]]]:
    """Run our faults by their names; return what the run took, and each mutant's result."""
    only = [word for fault in FAULTS for word in ("--only", fault.id)]
    cost = timed([sys.executable, "-m", "harness", "mutate", "--subject", CATALOGUE, "--workers", "1", *only], project)
    (journal,) = (project / "reports").glob(f"mutate-{CATALOGUE}-*/journal.jsonl")
    results = [line["result"] for line in map(json.loads, journal.read_text().splitlines()) if "result" in line]
    return cost, {result["id"]: result for result in results}


def open_session(python: Path, project: Path, wanted: Iterable[tuple[str, str, str]], name: str) -> tuple[Path, dict[str, str]]:
    """Make a session of the wanted mutations; return it and which operator makes each ("" for none)."""
    wanted = list(wanted)
    texts, session = project / f"{name}.json", project / f"{name}.sqlite"
    texts.write_text(json.dumps(wanted))
    timed(
        [python.with_name("cosmic-ray"), "init", write_config(project, {file for _, file, _ in wanted}, name), session], project
    )
    return session, json.loads(timed([python, HELPER, texts, session], project).output)


def write_config(project: Path, modules: Iterable[str], name: str) -> Path:
    """Write cosmic-ray's configuration: these modules, the gate as the tests."""
    path = project / f"{name}.toml"
    words = {
        "module-path": sorted(modules),
        "timeout": TIMEOUT_S,
        "excluded-modules": [],
        "test-command": f"{sys.executable} -m pytest harness -q",
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in words.items()]
    path.write_text("\n".join(["[cosmic-ray]", *lines, '[cosmic-ray.distributor]\nname = "local"\n']))
    return path


def run_cosmic_ray(python: Path, project: Path) -> tuple[Cost, Cost, dict[str, str]]:
    """Run the same faults; return what the clean run and the mutants took, and which operator made each."""
    wanted = [(fault.id, fault.file, fault.planted((project / fault.file).read_text())) for fault in FAULTS]
    session, operators = open_session(python, project, wanted, "faults")
    unmade = [name for name, operator in operators.items() if not operator]
    if unmade:
        raise SystemExit(f"{', '.join(unmade)}: no operator of cosmic-ray makes it; give a fault that one makes")
    config, tool = session.with_suffix(".toml"), python.with_name("cosmic-ray")
    baseline = timed([tool, "baseline", config], project)
    return baseline, timed([tool, "exec", config, session], project), operators


def outcomes_of(python: Path, project: Path) -> Counter[str]:
    """Return what cosmic-ray says became of the mutants of its session, and how many there are of each."""
    dumped = timed([python.with_name("cosmic-ray"), "dump", project / "faults.sqlite"], project).output
    results = [json.loads(line)[1] for line in dumped.splitlines()]
    return Counter(result["test_outcome"] if result else "not run" for result in results)


def catalogue_faults(project: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, module and mutated text of each entry of the catalogue that edits the loop and the lookup in one place."""
    for path in sorted((project / "mutants" / "forward-serve").glob("*.toml")):
        entries: Sequence[Mapping[str, Any]] = tomllib.loads(path.read_text()).get("mutant", ())
        for entry in entries:
            if str(entry.get("file", "")).startswith(ENGINE) and "find" in entry:
                fault = Fault(entry["id"], entry["file"], entry["find"], entry["replace"], ())
                yield fault.id, fault.file, fault.planted((project / fault.file).read_text())


def print_faults(results: Mapping[str, Mapping[str, Any]], operators: Mapping[str, str], outcomes: Counter[str]) -> None:
    """Print what became of each fault."""
    print(f"{'fault':<26}{'draftproof':<14}{'s':>5}  {'killers that had to fail':<32}cosmic-ray's operator")
    for fault in FAULTS:
        result, killers = results[fault.id], ", ".join(fault.killers)
        print(f"{fault.id:<26}{result['outcome']:<14}{result['seconds']:>5.1f}  {killers:<32}{operators[fault.id]}")
        if result["reason"]:  # a second look, by the whole gate plan in fresh processes, is what it took
            print(f"{'':<26}({result['reason']})")
    print(f"cosmic-ray: {', '.join(f'{count} {outcome}' for outcome, count in sorted(outcomes.items()))}\n")


def print_costs(ours: Cost, theirs: Cost, baseline: Cost, mutants_s: float) -> None:
    """Print what each tool took, as a whole and for each mutant."""
    num = len(FAULTS)
    print(f"{'':<44}{'s':>8}{'CPU s':>8}{'s/mutant':>10}{'CPU s/mutant':>14}")
    for name, cost in ((f"draftproof: {num} mutants and its probes", ours), (f"cosmic-ray: {num} mutants", theirs)):
        print(f"{name:<44}{cost.wall_s:>8.1f}{cost.cpu_s:>8.1f}{cost.wall_s / num:>10.1f}{cost.cpu_s / num:>14.1f}")
    print(f"{'cosmic-ray: its clean run':<44}{baseline.wall_s:>8.1f}{baseline.cpu_s:>8.1f}")
    print(f"{'draftproof: its mutants alone':<44}{mutants_s:>8.1f}{'':>8}{mutants_s / num:>10.1f}\n")


def main() -> None:
    """Run both and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cosmic-ray", type=Path, required=True, metavar="PYTHON", help="an interpreter that has cosmic-ray")
    python = parser.parse_args().cosmic_ray.absolute()
    with tempfile.TemporaryDirectory(prefix="mutation-tools-") as folder:
        project = Path(folder) / "project"
        copy_project(project)
        ours, results = run_draftproof(project)
        baseline, theirs, operators = run_cosmic_ray(python, project)
        print_faults(results, operators, outcomes_of(python, project))
        print_costs(ours, theirs, baseline, sum(result["seconds"] for result in results.values()))
        _, expressed = open_session(python, project, catalogue_faults(project), "catalogue")
    made = [name for name, operator in expressed.items() if operator]
    print(
        f"{len(expressed)} entries of the catalogue edit one place of {ENGINE}; its operators make {len(made)}: {', '.join(made)}"
    )
    print(NOT_EXPRESSED)


if __name__ == "__main__":
    main()
