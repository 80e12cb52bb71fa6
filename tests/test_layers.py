"""Who imports whom, by `ast`: an import runs down, never up, and the harness never sees the engine."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Floors from the ground up; a room may import rooms of lower floors, and of its own floor only where named here.
FLOORS: dict[str, int] = {
    "defaults": 0,
    "errors": 0,
    "scratch": 0,
    "records": 0,
    "tracing": 1,
    "subjects": 2,
    "runs": 3,
    "oracle": 3,
    "fabricate": 3,
    "plans": 4,
    "checks": 4,
    "report": 4,
    "mutation": 5,
    "gate": 6,
    "replay": 7,
    "__main__": 8,
    "conftest": 8,
    "test_gate": 8,
    "test_mutants": 8,
}
PURE = {"records", "oracle", "fabricate", "plans", "checks", "report"}
SHELL_MODULES = {"socket", "subprocess", "requests", "threading", "multiprocessing", "psutil"}


def imports_of(path: Path) -> set[str]:
    """Every module that a file imports, absolute."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert all(alias.name != "*" for alias in node.names), f"{path}: star import"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def room_of(path: Path) -> str:
    """The room of a harness file."""
    return path.relative_to(ROOT / "harness").parts[0].removesuffix(".py")


HARNESS_FILES = sorted((ROOT / "harness").rglob("*.py"))
ENGINE_FILES = sorted((ROOT / "forward_serve").rglob("*.py"))


@pytest.mark.parametrize("path", ENGINE_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_engine_imports_nothing_of_the_harness(path: Path) -> None:
    assert not {name for name in imports_of(path) if name.split(".")[0] in {"harness", "tests"}}


@pytest.mark.parametrize("path", HARNESS_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_import_of_the_harness_runs_down_and_never_reaches_the_engine(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        assert not {name for name in imports_of(path) if name != "os"}
        return
    for name in imports_of(path):
        parts = name.split(".")
        assert parts[0] != "forward_serve", f"{path} imports the engine"
        if parts[0] == "harness" and len(parts) > 1 and parts[1] != room:
            assert FLOORS[parts[1]] < FLOORS[room] or parts[1] in {"errors", "records"}, f"{path}: {name} is not below {room}"


@pytest.mark.parametrize("room", sorted(PURE))
def test_a_pure_room_opens_no_process_socket_or_thread(room: str) -> None:
    for path in sorted((ROOT / "harness" / room).rglob("*.py")):
        used = {name.split(".")[0] for name in imports_of(path)} & SHELL_MODULES
        assert not used, f"{path} imports {used}"


def test_the_report_imports_records_alone() -> None:
    for path in sorted((ROOT / "harness" / "report").rglob("*.py")):
        ours = {name.split(".")[1] for name in imports_of(path) if name.startswith("harness.")}
        assert ours <= {"records", "report", "errors"}, f"{path} imports {ours}"


def test_the_writer_and_the_oracle_share_no_arithmetic() -> None:
    for room, other in (("fabricate", "oracle"), ("oracle", "fabricate")):
        for path in sorted((ROOT / "harness" / room).rglob("*.py")):
            assert not {name for name in imports_of(path) if name.startswith(f"harness.{other}")}, path


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(path) for path in HARNESS_FILES} - {"__init__"}
    assert rooms <= set(FLOORS)
