"""A mutation run that is killed outright: its tree stays as it was, no process of it is left, and `--resume` finishes it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil
import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
FOLDERS = ("forward_serve", "harness", "fixtures", "mutants", "tests")  # what a run reads, with pyproject.toml
MUTANTS = ("first-draft-accepted-unseen", "earliest-occurrence", "off-is-ignored")
PATIENCE_S = 240.0  # a whole run takes 10 s on two free cores
GONE_WITHIN_S = 10.0
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, so that what a run could leave in its tree is seen, and nobody else's edit is."""
    target = tmp_path / "project"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "pyproject.toml", target)
    return target


@pytest.fixture
def orphans() -> Iterator[Orphans]:
    """Have the kernel give every orphan below this process to it, however it left its session and its environment."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    one = Orphans(frozenset(descendants(os.getpid())))
    yield one
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0
    for process in one.left(0):
        process.kill()


@dataclass(frozen=True, slots=True)
class Orphans:
    """The processes that were given to this one."""

    before: frozenset[psutil.Process]

    def left(self, timeout_s: float) -> list[psutil.Process]:
        """Wait for their end and return those that live on, with all that they started meanwhile."""
        deadline = time.monotonic() + timeout_s
        for process in descendants(os.getpid()) - self.before:
            with suppress(ProcessLookupError):
                pidfd = os.pidfd_open(process.pid)
                select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))
                os.close(pidfd)
                with suppress(ChildProcessError):  # of a keeper that is still ending
                    os.waitpid(process.pid, os.WNOHANG)
        return [process for process in descendants(os.getpid()) - self.before if not has_ended(process)]


def descendants(pid: int) -> set[psutil.Process]:
    return set(psutil.Process(pid).children(recursive=True))


def has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def words_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def digest(project: Path) -> str:
    """Of every file's name, mode and bytes, except what a run may write: its reports, and bytecode."""
    found = hashlib.sha256()
    for path in sorted(project.rglob("*")):
        name = path.relative_to(project)
        if path.is_file() and "__pycache__" not in name.parts and name.parts[0] != "reports":
            found.update(f"{name}\0{path.stat().st_mode}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return found.hexdigest()


def mutate(project: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start `draftproof mutate` in a copy of the project; its lines come as they are printed."""
    only = [word for mutant in MUTANTS for word in ("--only", mutant)]
    environment = {**os.environ, "PYTHONPATH": str(project), "TMPDIR": str(project.parent), "COLUMNS": "200"}
    return subprocess.Popen(
        [sys.executable, "-m", "harness", "mutate", *only, *arguments],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_until(run: subprocess.Popen[str], moment: str) -> list[str]:
    """Return the run's lines up to the one that begins as `moment` says. A run that hangs is killed and shown."""
    assert run.stdout is not None
    lines = []
    watchdog = threading.Timer(PATIENCE_S, run.kill)
    watchdog.start()
    try:
        for line in run.stdout:
            lines.append(line.rstrip("\n"))
            if re.match(moment, line):
                return lines
    finally:
        watchdog.cancel()
    raise AssertionError("\n".join([f"it ended with {run.wait()} before {moment}:", *lines]))


def journalled(folder: Path) -> list[str]:
    """Names of the mutants whose results are on the disk."""
    lines = [msgspec.json.decode(line) for line in (folder / "journal.jsonl").read_bytes().splitlines()]
    return [line["result"]["id"] for line in lines if line["type"] == "result"]


@pytest.mark.parametrize(
    ("moment", "workers", "num_known"),
    [(r"probe clean-twice: holds", 2, 0), (r"\[1/3\] KILLED ", 1, 1)],
    ids=["while two columns run the probes", "while the second mutant of three runs"],
)
def test_a_killed_run_leaves_its_tree_untouched_and_no_process_and_is_finished_by_resume(
    project: Path, orphans: Orphans, moment: str, workers: int, num_known: int
) -> None:
    before = digest(project)
    run = mutate(project, "--workers", str(workers))
    read_until(run, moment)
    keepers = [process for process in descendants(run.pid) if "harness.subjects.keeper" in words_of(process)]
    run.kill()
    assert run.wait() == -9
    assert [words_of(process) for process in orphans.left(GONE_WITHIN_S)] == []
    assert len(keepers) >= workers  # there was something to leave behind
    assert run.stdout is not None
    run.stdout.close()
    assert digest(project) == before

    (folder,) = (project / "reports").glob("mutate-forward-serve-*")
    assert len(journalled(folder)) == num_known
    assert not (folder / "outcomes.json").exists()

    resumed = mutate(project, "--workers", str(workers), "--resume", str(folder))
    lines = read_until(resumed, "results: ")
    assert resumed.wait(PATIENCE_S) == 0, "\n".join(lines)
    assert resumed.stdout is not None
    resumed.stdout.close()
    known = f", {num_known} known from before" if num_known else ""
    assert f"{len(MUTANTS) - num_known} mutants to run{known}" in lines
    assert sorted(journalled(folder)) == sorted(MUTANTS)
    assert (folder / "outcomes.json").is_file()
    assert digest(project) == before
    assert orphans.left(GONE_WITHIN_S) == []
