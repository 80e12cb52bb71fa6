"""A temporary folder is gone at its end, and after a kill with the next run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import scratch as module
from harness.scratch import LOCK, scratch

HOLDS = (
    "import sys, time; from harness.scratch import scratch\nwith scratch('a') as one: print(one, flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def names(temp: Path) -> set[str]:
    return {one.name for one in temp.iterdir()}


def holder(temp: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process that has such a folder, and lives until its stdin closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temp)},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_there_inside_and_gone_behind(temp: Path) -> None:
    with scratch("a") as one, scratch("a") as other:
        (one / "file").write_text("x")
        assert names(temp) == {one.name, other.name}
        assert one.name.startswith("draftproof-a-")
    assert names(temp) == set()


def test_what_a_killed_process_left_is_removed_by_the_next_of_its_purpose(temp: Path) -> None:
    process, left = holder(temp)
    (left / "file").write_text("x")
    with scratch("a"):
        assert left.is_dir()  # its process lives
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with scratch("b"):
        assert left.is_dir()
    with scratch("a") as one:
        assert names(temp) == {one.name}


def test_a_folder_that_no_lock_says_is_ours_is_left_alone(temp: Path) -> None:
    (temp / "draftproof-a-mine").mkdir()
    with scratch("a"):
        assert (temp / "draftproof-a-mine").is_dir()


def test_a_folder_of_another_user_is_left_alone(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = temp / "draftproof-a-theirs"
    left.mkdir()
    (left / LOCK).touch()
    monkeypatch.setattr(module.os, "getuid", lambda: os.geteuid() + 1)
    with scratch("a"):
        assert left.is_dir()
