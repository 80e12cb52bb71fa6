from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from harness.mutation.nodes import Case, can_import, junit_name, read_junit, run_nodes, sort_nodes
from harness.mutation.verdict import Event
from harness.records.budget import Budget

TESTS = """\
import os
import signal
import subprocess
import sys

import pytest

import p


@pytest.fixture
def broken():
    raise RuntimeError


def test_good():
    assert p.__file__ == os.path.join(os.getcwd(), "p.py")


def test_bad():
    assert False


def test_error(broken):
    pass


def test_skipped():
    pytest.skip("not here")


@pytest.mark.parametrize("number", [1, 2])
def test_many(number):
    assert number != 2


def test_endless():
    while True:
        pass


def test_waits():
    signal.pause()


def test_leaves_a_child():
    subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()  # child-of-a-test"])
    assert True
"""


def tree(tmp_path: Path, tests: str = TESTS) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "p.py").write_text("x = 1\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "tests" / "test_a.py").write_text(tests)
    return tmp_path


def names(*tests: str) -> list[str]:
    return [f"tests/test_a.py::test_{name}" for name in tests]


@pytest.mark.e2e
def test_nodes_are_sorted_by_what_became_of_them(tmp_path: Path) -> None:
    run = run_nodes(tree(tmp_path), names("good", "bad", "error", "skipped", "many", "many[1]", "many[2]"))
    assert list(run.failed) == names("bad", "many", "many[2]")
    assert list(run.passed) == names("good", "many[1]")
    assert list(run.broken) == names("error", "skipped")
    assert run.events == (Event.DIED,)
    assert "assert False" in run.output
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["p.py", "pyproject.toml", "test_a.py"]


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "budget"), [("endless", Budget(1, 60.0)), ("waits", Budget(30, 1.5))])
def test_a_test_that_never_ends_is_a_timeout_by_cpu_or_by_wall(tmp_path: Path, name: str, budget: Budget) -> None:
    run = run_nodes(tree(tmp_path), names(name), budget)
    assert (run.failed, run.events) == ((), (Event.TIMEOUT,))


@pytest.mark.e2e
def test_a_module_that_does_not_import_is_no_failure_of_its_tests(tmp_path: Path) -> None:
    run = run_nodes(tree(tmp_path, "import no_such_module\n" + TESTS), names("good"))
    assert (run.failed, list(run.broken), run.events) == ((), names("good"), (Event.CANNOT_IMPORT,))


@pytest.mark.e2e
def test_a_node_that_does_not_exist_is_no_failure(tmp_path: Path) -> None:
    run = run_nodes(tree(tmp_path), names("nothing"))
    assert (run.failed, run.passed, run.events) == ((), (), (Event.CANNOT_IMPORT,))


@pytest.mark.e2e
def test_what_a_test_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    run = run_nodes(tree(tmp_path), names("leaves_a_child"))
    assert list(run.passed) == names("leaves_a_child")
    left = [process for process in psutil.process_iter(["cmdline", "cwd"]) if _is_of(process, tmp_path)]
    _, alive = psutil.wait_procs(left, timeout=5)  # they were killed; that they are gone may take the kernel a moment
    assert alive == []


def _is_of(process: psutil.Process, folder: Path) -> bool:
    words = process.info["cmdline"] or []
    return any("child-of-a-test" in word for word in words) and str(process.info["cwd"]).startswith(str(folder))


def test_an_import_that_fails_says_why(tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / "q.py").write_text("import no_such_module\n")
    assert can_import(root, ["p.py", "notes.txt"]) == ""
    assert "No module named 'no_such_module'" in can_import(root, ["p.py", "q.py"])


def test_a_process_that_was_killed_before_it_wrote_has_no_cases(tmp_path: Path) -> None:
    assert read_junit(tmp_path / "none.xml") == ()
    (tmp_path / "half.xml").write_text("<testsuites><testsuite>")
    assert read_junit(tmp_path / "half.xml") == ()


@pytest.mark.parametrize(
    ("node", "want"),
    [
        ("tests/a/test_b.py::test_c", ("tests.a.test_b", "test_c")),
        ("tests/a/test_b.py::TestD::test_c", ("tests.a.test_b.TestD", "test_c")),
        ("tests/a/test_b.py::test_c[x/y.z::1]", ("tests.a.test_b", "test_c[x/y.z::1]")),
    ],
)
def test_a_node_is_named_as_pytest_names_it_in_its_file(node: str, want: tuple[str, str]) -> None:
    assert junit_name(node) == want


def test_a_node_whose_name_another_begins_with_is_not_mistaken_for_it() -> None:
    cases = (Case("t", "test_a_b", "failure"), Case("t", "test_a", "passed"), Case("u", "test_a", "failure"))
    assert sort_nodes(["t.py::test_a"], cases) == ((), ("t.py::test_a",), ())


@pytest.mark.e2e
def test_a_limit_of_a_clean_run_has_a_floor(tmp_path: Path) -> None:
    run = run_nodes(tree(tmp_path), names("good"))
    assert list(run.passed) == names("good")
    assert run.budget().cpu_s >= 5
    assert run.budget().wall_s >= 30
    assert run.budget(7.0, 8.0) == Budget(7.0, 8.0)
