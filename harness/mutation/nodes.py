"""Runs pytest nodes against an overlay, in a process of their own: the killers of faults that no server request can reach.

The overlay holds the packages, the tests and what they read; pytest runs inside it with nothing of the working tree on its path.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET  # the file is our own pytest's
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from harness.mutation.arena import CPU_FACTOR, MIN_WALL_S, WALL_FACTOR
from harness.mutation.verdict import Event
from harness.records.budget import Budget
from harness.scratch import scratch

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME", "DRAFTPROOF_CACHE", "SYSTEMROOT")
_TAIL = 4000  # characters of pytest's output that are kept
_FIXED = MappingProxyType(
    {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
)
_MIN_CPU_S = 5.0  # starting pytest alone takes about one


@dataclass(frozen=True, slots=True)
class NodeRun:
    """What one pytest process said of the nodes that it was given."""

    failed: tuple[str, ...]  # a test's own call failed
    passed: tuple[str, ...]
    broken: tuple[str, ...]  # neither: error in a fixture, skipped, or never run
    events: tuple[Event, ...]
    output: str
    seconds: float

    def budget(self, cpu_s: float | None = None, wall_s: float | None = None) -> Budget:
        """Return the budget of a mutant that this clean run speaks for, where the entry gives none of its own."""
        return Budget(
            cpu_s=cpu_s or max(_MIN_CPU_S, math.ceil(CPU_FACTOR * self.seconds)),
            wall_s=wall_s or max(MIN_WALL_S, WALL_FACTOR * self.seconds),
        )


def run_nodes(root: Path, nodes: Sequence[str], budget: Budget | None = None, python: str = sys.executable) -> NodeRun:
    """Run the nodes in the overlay `root` and sort them by what became of them.

    A node with parameters stands for all its instances and fails if one fails. A process that ends without having run its tests
    never counts as a failure of them.
    """
    with scratch("nodes") as folder:
        junit, log = folder / "junit.xml", folder / "output"
        began = time.monotonic()
        status, timed_out = _run(_command(python, root, nodes, junit), root, log, budget)
        seconds = time.monotonic() - began
        cases = read_junit(junit)
        output = log.read_text(encoding="utf-8", errors="backslashreplace")[-_TAIL:]
    failed, passed, broken = sort_nodes(nodes, cases)
    events = () if not (timed_out or broken) else (Event.TIMEOUT,) if timed_out else (_break(status, broken, cases),)
    return NodeRun(failed, passed, broken, events, output, seconds)


@dataclass(frozen=True, slots=True)
class Case:
    """One test case of a JUnit file."""

    classname: str
    name: str
    result: str  # passed, failure, error, skipped


def read_junit(path: Path) -> tuple[Case, ...]:
    """Return the cases of a JUnit file of ours; () where none was written whole."""
    try:
        tree = ET.parse(path)  # noqa: S314  # written by the pytest that we started
    except (OSError, ET.ParseError):
        return ()
    return tuple(Case(each.get("classname", ""), each.get("name", ""), _result(each)) for each in tree.iter("testcase"))


def sort_nodes(nodes: Iterable[str], cases: Sequence[Case]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return (failed, passed, broken) nodes by their cases; a node without a case is broken."""
    failed, passed, broken = [], [], []
    for node in nodes:
        classname, name = junit_name(node)
        results = [case.result for case in cases if case.classname == classname and _is_instance(case.name, name)]
        if "failure" in results:
            failed.append(node)
        elif results and set(results) == {"passed"}:
            passed.append(node)
        else:
            broken.append(node)
    return tuple(failed), tuple(passed), tuple(broken)


def junit_name(node: str) -> tuple[str, str]:
    """Return (class name, name) as pytest writes them: a/test_b.py::TestC::test_d[1] is (a.test_b.TestC, test_d[1])."""
    path, bracket, parameters = node.partition("[")
    file, *names = path.split("::")
    parts = [file.removesuffix(".py").replace("/", "."), *names]
    return ".".join(parts[:-1]), parts[-1] + bracket + parameters


def _is_instance(case_name: str, name: str) -> bool:
    return case_name == name or case_name.startswith(f"{name}[")


def _result(case: ET.Element) -> str:
    for kind in ("failure", "error", "skipped"):
        if case.find(kind) is not None:
            return kind
    return "passed"


def _break(status: int, broken: Iterable[str], cases: Sequence[Case]) -> Event:
    """Say why nodes have no result: the process was ended, a module did not import, or they neither failed nor passed."""
    if status < 0:
        return Event.TIMEOUT if -status in (signal.SIGXCPU, signal.SIGKILL) else Event.DIED
    ran = {(case.classname, case.name.partition("[")[0]) for case in cases}
    names = [junit_name(node) for node in broken]
    return Event.DIED if all((place, name.partition("[")[0]) in ran for place, name in names) else Event.CANNOT_IMPORT


def _command(python: str, root: Path, nodes: Sequence[str], junit: Path) -> list[str]:
    """Return the command line. It dies with the thread that starts it, and nothing in it is random."""
    die_with_us = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    options = ["-q", "-p", "no:cacheprovider", f"--rootdir={root}", f"--junitxml={junit}", "-o", "junit_family=xunit2"]
    if importlib.util.find_spec("hypothesis") is not None:
        options.append("--hypothesis-seed=0")
    return [*die_with_us, python, "-B", "-m", "pytest", *options, *nodes]


def _run(command: Sequence[str], root: Path, output: Path, budget: Budget | None) -> tuple[int, bool]:
    """Run the command in its own session and return (exit status, whether its wall budget ran out)."""
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {"PYTHONPATH": str(root), **_FIXED}
    with output.open("wb") as stream:  # a file, not a pipe: what a test leaves behind cannot hold it open
        process = subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        if budget is not None:
            seconds = math.ceil(budget.cpu_s)
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds))
        return process.wait(timeout=budget.wall_s if budget else None), False
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL, True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the whole session, also what the tests left behind
        process.wait()


def can_import(root: Path, files: Iterable[str], python: str = sys.executable) -> str:
    """Import the modules of some files of an overlay in a process of their own; return what went wrong, "" if nothing did."""
    modules = [file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in files if file.endswith(".py")]
    if not modules:
        return ""
    with scratch("import") as folder:
        log = folder / "output"
        command = [python, "-B", "-c", f"import {', '.join(modules)}"]
        status, _ = _run(command, root, log, Budget(_MIN_CPU_S, MIN_WALL_S))
        output = log.read_text(encoding="utf-8", errors="backslashreplace")[-_TAIL:]
    return "" if status == 0 else output or f"status {status}"
