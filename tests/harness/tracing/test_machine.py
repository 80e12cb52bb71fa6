"""What the machine allows, with tools that are missing or misbehave."""

import os
import shutil
from pathlib import Path

import pytest

from harness.errors import MachineError, UsageError
from harness.tracing.machine import Machine, Namespaces, check_core, probe

BARE = Machine("/py", "/setpriv", "/taskset", "/unshare", "/strace", Namespaces.NONE)


def tools(folder: Path, monkeypatch, *names: str, **scripts: str) -> None:
    """A PATH of these tools alone; `scripts` replace some by shell scripts."""
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or "/missing")
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_a_column_is_pinned_isolated_traced_and_dies_with_its_thread():
    direct = Machine("/py", "/setpriv", "/taskset", "/unshare", "/strace", Namespaces.DIRECT)
    words = " ".join(direct.column_argv(1, "/log"))
    assert words.startswith(
        "/setpriv --pdeathsig KILL /taskset -c 1 /unshare --pid --fork --kill-child=SIGKILL --mount-proc /strace -f "
    )
    assert words.endswith(" -o /log")


def test_a_user_namespace_comes_first_where_root_is_missing():
    user = Machine("/py", "/setpriv", "/taskset", "/unshare", "/strace", Namespaces.USER)
    assert user.column_argv(None, None)[3:] == ("/unshare", "-U", "-r", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc")


def test_without_namespaces_core_and_tracing_only_the_death_signal_is_left():
    assert BARE.column_argv(None, None) == ("/setpriv", "--pdeathsig", "KILL")


def test_this_machine_is_probed_by_trying():
    machine = probe()
    assert (machine.namespaces is Namespaces.NONE) == bool(machine.losses)
    assert machine.strace == shutil.which("strace")


def test_a_missing_strace_is_named_with_its_package(tmp_path, monkeypatch):
    tools(tmp_path, monkeypatch, "setpriv", "taskset", "unshare", "true")
    with pytest.raises(MachineError, match=r"^strace: not found on PATH; install it \(apt-get install strace\)"):
        probe()
    assert probe(traced=False).strace == ""


def test_a_missing_setpriv_is_named_with_its_package(tmp_path, monkeypatch):
    tools(tmp_path, monkeypatch, "taskset")
    with pytest.raises(MachineError, match=r"^setpriv: not found on PATH.*util-linux"):
        probe()


def test_a_forbidden_ptrace_is_told_with_what_strace_said(tmp_path, monkeypatch):
    said = "echo 'strace: ptrace(PTRACE_TRACEME): Operation not permitted' >&2; exit 1"
    tools(tmp_path, monkeypatch, "setpriv", "taskset", "unshare", "true", strace=said)
    with pytest.raises(
        MachineError, match=r"exit status 1: strace: ptrace\(PTRACE_TRACEME\): Operation not permitted.*SYS_PTRACE"
    ):
        probe()


def test_a_strace_that_says_anything_at_all_is_not_trusted(tmp_path, monkeypatch):
    tools(tmp_path, monkeypatch, "setpriv", "taskset", "unshare", "true", strace="echo 'seccomp filter is not used' >&2")
    with pytest.raises(MachineError, match="seccomp filter is not used"):
        probe()


def test_forbidden_namespaces_are_a_loss_that_is_told(tmp_path, monkeypatch):
    said = "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1"
    tools(tmp_path, monkeypatch, "setpriv", "taskset", "true", unshare=said)
    machine = probe(traced=False)
    assert machine.namespaces is Namespaces.NONE
    assert "Operation not permitted" in machine.losses[0]
    assert "outlive" in machine.losses[0]


def test_a_core_that_this_process_may_not_use_is_refused():
    check_core(None)
    check_core(min(os.sched_getaffinity(0)))
    with pytest.raises(UsageError, match=r"^core=4096: not among the cores of this process; use one of \["):
        check_core(4096)
