"""Nothing is left: whoever of the tree is killed, and a tracer that is disturbed is never believed."""

import dataclasses
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from harness.records.budget import Cause
from harness.subjects.column import Launcher
from harness.subjects.warm import WarmLauncher
from harness.tracing.machine import Namespaces

from .conftest import FAKE, WARM, asking, planned

ROOT = Path(__file__).parents[3]
GONE_WITHIN_S = 3.0


class Watch:
    """Waits for the end of processes by their pidfds."""

    def __init__(self, processes):
        self.pidfds = {}
        for process in processes:
            try:
                self.pidfds[os.pidfd_open(process.pid)] = f"{process.pid} {process.name()}"
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue

    def left(self) -> list[str]:
        """Names of those that are still there when time is up."""
        deadline = time.monotonic() + GONE_WITHIN_S
        waiting = dict(self.pidfds)
        while waiting and (remaining := deadline - time.monotonic()) > 0:
            for pidfd in select.select(list(waiting), [], [], remaining)[0]:
                del waiting[pidfd]
        for pidfd in self.pidfds:
            os.close(pidfd)
        return list(waiting.values())


def role_of(process: psutil.Process) -> str:
    """Which part of a column a process is."""
    try:
        words = process.cmdline()
    except psutil.Error:  # it ended meanwhile
        return "gone"
    program = Path(words[0]).name if words else ""
    if program in ("unshare", "strace"):
        return program
    return "keeper" if any("harness.subjects.keeper" in word for word in words) else "subject"


def tree_of(holder: subprocess.Popen) -> dict[str, list[psutil.Process]]:
    """The processes below a harness by their part, parents first."""
    tree: dict[str, list[psutil.Process]] = {}
    for process in psutil.Process(holder.pid).children(recursive=True):
        tree.setdefault(role_of(process), []).append(process)
    return tree


@pytest.fixture
def held(kind, tmp_path, model, machine):
    """(a harness that holds a subject with a daemon, its address, its processes)."""
    if machine.namespaces is Namespaces.NONE:
        pytest.skip("this machine allows no pid namespaces: " + "; ".join(machine.losses))
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.harness.subjects.hold", kind, str(FAKE), str(tmp_path), str(model)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        address = holder.stdout.readline().strip()
        yield holder, address, tree_of(holder)
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("kind", "victim"),
    [
        ("cold", "harness"),
        ("cold", "strace"),
        *(("warm", part) for part in ("harness", "harness behind a stopped tracer", "unshare", "strace", "keeper", "guard")),
    ],
)
def test_whoever_is_killed_no_process_is_left_and_the_port_is_free(held, victim):
    holder, address, tree = held
    everybody = [process for processes in tree.values() for process in processes]
    assert len(everybody) >= 6  # unshare, strace, keeper, guard, subject, daemon
    watch = Watch(everybody)
    victims = {
        "harness": psutil.Process(holder.pid),
        "harness behind a stopped tracer": psutil.Process(holder.pid),
        "unshare": tree["unshare"][0],
        "strace": tree["strace"][0],
        "keeper": tree["keeper"][0],
        "guard": tree["keeper"][1],  # forked from the keeper
    }
    if victim == "guard":  # the keeper and its tracer wait for the next subject
        kept = {process.pid for process in (tree["unshare"][0], tree["strace"][0], tree["keeper"][0])}
        watch = Watch([process for process in everybody if process.pid not in kept])
    if victim == "harness behind a stopped tracer":  # the keeper cannot see its socket's end
        tree["strace"][0].send_signal(signal.SIGSTOP)
        tree["keeper"][0].send_signal(signal.SIGSTOP)
    victims[victim].send_signal(signal.SIGKILL)
    assert watch.left() == []
    socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))).close()


def column_of(launcher) -> dict[str, psutil.Process]:
    """The tracer and the keeper of the launcher's column."""
    parts: dict[str, psutil.Process] = {}
    for process in psutil.Process().children(recursive=True):
        parts.setdefault(role_of(process), process)
    return parts


@pytest.fixture
def short_barrier(monkeypatch):
    monkeypatch.setattr("harness.subjects.process_tree.BARRIER_TIMEOUT_S", 0.2)
    monkeypatch.setattr("harness.subjects.process_tree.CLOSE_TIMEOUT_S", 0.2)


@WARM
def test_a_stopped_tracer_is_blind_and_is_ended_all_the_same(launcher, subject, model, short_barrier):
    processes = psutil.Process().children(recursive=True)
    watch = Watch(processes)
    column_of(launcher)["strace"].send_signal(signal.SIGSTOP)
    assert subject.ask(asking("open", where="process", path="/etc/hostname", deadline_s=0.2)).failure == "deadline"
    ended = subject.end()
    assert ended.cause is Cause.LOST
    assert any("the tracer is stopped or dead" in why for why in ended.trace.blind)
    assert any("end nonce is not in the tracer's log" in why for why in ended.trace.blind)
    again = launcher.start(planned(), model)
    assert again.end().trace.blind == ()
    assert watch.left() == []


@pytest.mark.parametrize("part", ["strace", "keeper"])
def test_a_dead_tracer_or_keeper_is_blind_and_the_next_subject_is_well(launcher, subject, model, part):
    column_of(launcher)[part].kill()
    ended = subject.end()
    assert ended.trace.blind != ()
    assert launcher.start(planned(), model).end().trace.blind == ()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ('{strace} "$@"; echo "strace: No space left on device" >&2', "the tracer said: strace: No space left on device"),
        ('exec {strace} -T "$@"', "a line of the tracer's log cannot be read"),
        ('{strace} "$@"; exit 1', "the tracer ended with status 1"),
    ],
)
def test_a_tracer_that_complains_or_writes_otherwise_is_blind(script, reason, fake, tmp_path, machine, model):
    wrapper = tmp_path / "strace"
    wrapper.write_text("#!/bin/sh\n" + script.format(strace=machine.strace) + "\n")
    wrapper.chmod(0o755)
    odd = dataclasses.replace(machine, strace=str(wrapper))
    with Launcher(fake, tmp_path, machine=odd) as launcher:
        ended = launcher.start(planned(), model).end()
    assert any(reason in why for why in ended.trace.blind), ended.trace.blind


def test_closing_a_launcher_ends_a_subject_that_was_not_ended(launcher, subject):
    subject.ask(asking("daemonise"))
    watch = Watch(psutil.Process().children(recursive=True))
    launcher.close()
    assert watch.left() == []
    assert subject.end().trace.blind != ()


@WARM
def test_closing_from_another_thread_breaks_off_what_is_being_asked(launcher, subject):
    closer = threading.Timer(0.1, launcher.close)
    closer.start()
    assert subject.ask(asking("wait")).failure == "reset"
    closer.join()
    assert subject.end().trace.blind != ()


def test_without_namespaces_a_daemon_is_swept_at_the_end_of_its_subject(fake, tmp_path, machine, model):
    lesser = dataclasses.replace(machine, namespaces=Namespaces.NONE)
    with WarmLauncher(fake, tmp_path, machine=lesser) as launcher:
        subject = launcher.start(planned(), model)
        subject.ask(asking("daemonise"))
        keeper, *rest = [one for one in psutil.Process().children(recursive=True) if role_of(one) in ("keeper", "subject")]
        assert len(rest) >= 3
        watch = Watch(rest)
        assert subject.end().trace.blind == ()
        assert watch.left() == []
        assert keeper.is_running()
