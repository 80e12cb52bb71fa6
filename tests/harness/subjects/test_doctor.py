"""A machine is examined item by item; what is not there is told with the way to get it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from harness.errors import MachineError
from harness.records.checkup import Item, State
from harness.subjects import doctor
from harness.subjects.description import load_description
from harness.subjects.doctor import checkup
from harness.subjects.tables import Requirements
from harness.tracing.machine import Machine, Namespaces

BARE = Machine(
    "/py", "/bin/setpriv", "/bin/taskset", "", "/bin/strace", Namespaces.NONE, losses=("no namespaces (said)", "no mounts")
)


def item(what: str, found: doctor.Checkup) -> Item:
    (one,) = [one for one in found.items if what in one.what]
    return one


def test_this_machine_has_what_the_gate_needs(tmp_path: Path) -> None:
    found = checkup(None, tmp_path / "cache")
    assert [one for one in found.items if one.state is State.MISSING] == []
    assert found.is_ready
    assert {"Python", "setpriv", "strace", "ptrace", "namespaces", "cores", "port", "room", "memory"} <= {
        word for one in found.items for word in one.what.replace("(", "").replace(")", "").split()
    }


def test_a_subjects_needs_stand_behind_the_machines(tmp_path: Path) -> None:
    needs = Requirements(programs=("no-such-program",), hint="buy one")
    found = checkup(msgspec.structs.replace(load_description("forward-serve"), requires=needs), tmp_path)
    assert (found.subject, found.family, found.is_ready) == ("forward-serve", "forward-serve", False)
    assert found.items[-1] == Item("the program no-such-program on PATH", State.MISSING, "not found", "buy one")


def test_missing_tools_are_named_with_their_package_and_nothing_is_tried_without_them(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = checkup(None, tmp_path)
    assert item("strace", found) == Item("the program strace", State.MISSING, "not found on PATH", "apt-get install strace")
    assert item("setpriv", found).fix == "apt-get install util-linux"
    assert not any("namespaces" in one.what or "ptrace" in one.what for one in found.items)


def test_a_machine_that_forbids_namespaces_loses_them_and_is_ready_all_the_same(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(doctor, "probe", lambda **_: BARE)
    found = checkup(None, tmp_path)
    lost = item("namespaces", found)
    assert (lost.state, lost.seen) == (State.LOST, "no namespaces (said)")
    assert "user namespaces" in lost.fix
    assert found.is_ready


def test_a_machine_that_forbids_ptrace_is_not_ready_and_told_why_and_how(tmp_path: Path, monkeypatch) -> None:
    def probe(traced: bool) -> Machine:
        if traced:
            raise MachineError("strace: cannot trace here (exit status 1: EPERM); ptrace must be allowed")
        return BARE

    monkeypatch.setattr(doctor, "probe", probe)
    missing = item("ptrace", checkup(None, tmp_path))
    assert missing == Item(
        "tracing with strace (ptrace)",
        State.MISSING,
        "strace: cannot trace here (exit status 1: EPERM)",
        "ptrace must be allowed; or run with --no-trace",
    )


def test_a_core_that_the_process_may_not_use_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    assert (item("cores", checkup(None, tmp_path)).state, item("cores", checkup(None, tmp_path)).seen) == (
        State.MISSING,
        "allowed: [0]",
    )


def test_a_cache_without_room_or_leave_to_write_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(doctor, "CACHE_MIB", 1 << 40)
    assert item("room", checkup(None, tmp_path)).state is State.MISSING
    monkeypatch.setattr(doctor, "CACHE_MIB", 1)
    monkeypatch.setattr(doctor, "_may_write", lambda _cache: False)
    assert (item("room", checkup(None, tmp_path)).state, item("room", checkup(None, tmp_path)).seen) == (
        State.MISSING,
        "not writable",
    )


def test_a_machine_without_a_port_is_told_so(tmp_path: Path, monkeypatch) -> None:
    def no_port() -> int:
        raise OSError("no loopback")

    monkeypatch.setattr(doctor, "free_port", no_port)
    assert (item("free port", checkup(None, tmp_path)).state, item("free port", checkup(None, tmp_path)).seen) == (
        State.MISSING,
        "no loopback",
    )
