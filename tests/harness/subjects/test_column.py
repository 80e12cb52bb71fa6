"""Subjects in their columns, cold and warm: how they are started, what surrounds them, what the tracer sees of them."""

import contextlib
import dataclasses
import errno
import shutil
import socket
from pathlib import Path

import msgspec
import pytest

from harness.errors import MachineError, UsageError
from harness.records.budget import Cause
from harness.subjects.column import Launcher, NeverReadyError
from harness.subjects.warm import WarmLauncher
from harness.tracing.machine import Namespaces
from harness.tracing.strace import parse

from .conftest import WARM, asking, planned

ACCEL = "/dev/accel/accel0"


def facts_of(subject) -> dict:
    answer = subject.ask(asking("facts"))
    assert answer.body is not None, answer
    return answer.body["facts"]


def overlay_of(fake, folder: Path, mark: str) -> Path:
    shutil.copytree(fake.source_root / "fake_engine", folder / "fake_engine", ignore=shutil.ignore_patterns("__pycache__"))
    package = folder / "fake_engine" / "__init__.py"
    package.write_text(package.read_text().replace("original", mark))
    return folder


def test_a_subject_is_ready_answers_and_is_ended_with_an_unclouded_trace(launcher, subject, model):
    answer = subject.ask(asking())
    assert (answer.status, answer.failure, answer.reply.text) == (200, "", "abc")
    assert subject.ready_line.startswith(f"[ready] port={subject.base_url.rpartition(':')[2]} ")
    ended = subject.end()
    assert (ended.exit_status, ended.cause) == (None, Cause.ENDED)
    assert ended.log[0] == subject.ready_line
    assert (ended.trace.traced, ended.trace.blind, ended.trace.events) == (True, (), ())
    assert ended.trace.opened == (str(model / "weights"),)
    assert ended.trace.num_opens > 0
    assert ended.cpu_seconds > 0
    assert ended.peak_rss_mib > 1


def test_a_subject_lives_in_its_declared_environment_alone(launcher, model, monkeypatch):
    monkeypatch.setenv("FAKE_PASSED", "yes")
    monkeypatch.setenv("FAKE_UNDECLARED", "no")
    subject = launcher.start(planned("lookup", k=4), model)
    facts = facts_of(subject)
    assert facts["environ"]["FAKE_PASSED"] == "yes"
    assert "FAKE_UNDECLARED" not in facts["environ"]
    assert facts["environ"]["PYTHONDONTWRITEBYTECODE"] == "1"
    assert facts["no_bytecode"] is True
    assert facts["argv"][1:] == ["-m", str(model), "-p", subject.base_url.rpartition(":")[2], "--lookup", "4"]
    assert facts["argv"][0] == facts["file"]
    assert facts["name"] == "__main__"
    assert facts["cwd"] == str(subject.scratch)
    assert facts["path"][:2] == [facts["cwd"], facts["environ"]["PYTHONPATH"]]


def test_a_subject_is_pinned_alone_in_its_pid_namespace_and_holds_no_foreign_descriptor(launcher, subject):
    facts = facts_of(subject)
    assert facts["cores"] == [0]
    if launcher.machine.namespaces is not Namespaces.NONE:
        assert facts["pid"] == 1
        assert [name for name in facts["processes"] if name.isdigit()] == ["1"]
    opened_by_asking = 2  # the connection and the listing itself
    assert facts["descriptors"] == list(range(4 + opened_by_asking))


def test_a_subject_of_a_warm_parent_holds_nothing_of_the_harness(fake, tmp_path, machine, model):
    with WarmLauncher(fake, tmp_path, machine=machine) as launcher:
        modules = facts_of(launcher.start(planned(), model))["modules"]
    assert [name for name in modules if name.partition(".")[0] == "harness"] == []


def test_an_overlay_replaces_the_source_tree_for_one_subject_only(launcher, fake, model, tmp_path):
    overlay = overlay_of(fake, tmp_path / "mutant", "mutated")
    seen = []
    for tree in (None, overlay, None):
        subject = launcher.start(planned(), model, overlay=tree)
        facts = facts_of(subject)
        seen.append((facts["mark"], facts["file"]))
        subject.end()
    main = "fake_engine/__main__.py"
    original = ("original", str(fake.source_root / main))
    assert seen == [original, ("mutated", str(overlay / main)), original]
    assert not list(overlay.rglob("__pycache__"))


@WARM
def test_an_overlay_without_a_declared_package_is_refused(launcher, model, tmp_path):
    with pytest.raises(UsageError, match=r"package 'fake_engine' is missing; an overlay holds each declared package whole"):
        launcher.start(planned(), model, overlay=tmp_path)


@pytest.mark.parametrize("where", ["process", "child"])
def test_a_watched_path_that_a_request_opens_is_that_request_s_event(launcher, subject, where):
    subject.ask(asking("answer", "before"))
    subject.ask(asking("open", "opens", where=where, path=ACCEL))
    subject.ask(asking("answer", "after"))
    ended = subject.end()
    assert ended.trace.blind == ()
    assert [(event.path, event.request_id, event.call) for event in ended.trace.events] == [(ACCEL, "opens", "openat")]


def test_a_device_node_is_seen_by_its_subject_alone_and_each_submit_is_counted(launcher, model):
    seen_before = Path(ACCEL).exists()  # a machine may have one of its own
    subject = launcher.start(planned("device"), model)
    assert Path(ACCEL).exists() == seen_before
    for request_id, times in (("one", 1), ("three", 3)):
        assert subject.ask(asking("submit", request_id, path=ACCEL, times=times)).status == 200
    ended = subject.end()
    events = ended.trace.events
    assert ended.trace.blind == ()
    assert [event.result.partition(" ")[0] == "-1" for event in events if event.call == "openat"] == [False] * 3
    assert [event.request_id for event in events if event.call == "ioctl"] == ["one", "three", "three", "three"]
    assert ended.trace.opened.count(ACCEL) == 3


def test_the_tracer_s_log_is_hidden_from_the_subject(launcher, model, tmp_path):
    subject = launcher.start(planned(), model)
    (log,) = tmp_path.resolve().rglob("strace.log")
    subject.ask(asking("open", where="process", path=str(log)))
    assert subject.ask(asking("open", where="process", path=str(log.parent))).status == 200
    assert log.stat().st_size > 0
    calls = parse(log.read_bytes()).calls
    subject.end()
    assert [call.result for call in calls if call.path == str(log)] == ["-1 ENOENT"]


@WARM
def test_one_column_holds_one_subject_at_a_time(launcher, subject, model):
    with pytest.raises(UsageError, match="a subject is running in this column; end it before another is started"):
        launcher.start(planned(), model)
    subject.end()
    launcher.start(planned(), model).end()


@WARM
def test_ending_twice_is_ending_once(subject):
    assert subject.end() is subject.end()


def test_a_refused_start_tells_its_status_its_line_and_its_trace(launcher, model):
    ended = launcher.refused(planned(refuse="--spec-lookup=4: no"), model)
    assert (ended.exit_status, ended.cause, ended.log) == (2, Cause.EXITED, ("--spec-lookup=4: no",))
    assert ended.trace.blind == ()


@WARM
def test_a_start_that_is_not_refused_after_all_has_no_exit_status(launcher, model):
    ended = launcher.refused(planned(), model)
    assert (ended.exit_status, ended.cause) == (None, Cause.ENDED)
    assert ended.log[0].startswith("[ready]")


def test_a_subject_that_ends_before_it_is_ready_is_told_with_its_last_lines(launcher, model):
    with pytest.raises(NeverReadyError) as raised:
        launcher.start(planned(refuse="weights: bad magic"), model)
    assert str(raised.value) == (
        "fake: arm 'plain' of start 'plain-start': ended before it was ready, with status 2; "
        "its last lines:\n  weights: bad magic"
    )
    assert raised.value.ended.exit_status == 2


@WARM
def test_a_subject_that_is_never_ready_is_ended_at_its_wall_budget(launcher, model):
    with pytest.raises(NeverReadyError, match=r"was not ready in 0.3 s; it"):
        launcher.start(planned("never-ready"), model, wall_budget_s=0.3)
    launcher.start(planned(), model).end()


@WARM
def test_a_subject_whose_probe_is_refused_is_not_ready(launcher, model):
    with pytest.raises(NeverReadyError, match=r"answered /health with 503 after its ready line; want 200"):
        launcher.start(planned("unhealthy"), model)


@WARM
def test_a_subject_that_dies_while_it_is_asked_leaves_its_status(subject):
    answer = subject.ask(asking("exit", status=7))
    assert (answer.status, answer.failure) == (None, "reset")
    assert subject.ask(asking()).failure in ("refused", "reset")
    ended = subject.end()
    assert (ended.exit_status, ended.cause, ended.trace.blind) == (7, Cause.EXITED, ())


@pytest.mark.e2e
@WARM
def test_an_endless_loop_costs_its_cpu_budget_once(launcher, model):
    subject = launcher.start(planned(), model, cpu_budget_s=1)
    assert subject.ask(asking("spin")).failure == "reset"
    assert subject.ask(asking()).failure in ("refused", "reset")
    ended = subject.end()
    assert (ended.exit_status, ended.cause) == (-9, Cause.CPU_BUDGET)
    assert 0.5 <= ended.cpu_seconds < 1.5
    assert ended.trace.blind == ()


@WARM
def test_nothing_is_waited_for_beyond_the_wall_budget(launcher, model):
    subject = launcher.start(planned(), model, wall_budget_s=0.8)
    first, second = subject.ask(asking("wait")), subject.ask(asking())
    assert (first.failure, second.failure) == ("deadline", "deadline")
    assert first.seconds < 0.9
    assert second.seconds < 0.1
    assert subject.end().cause is Cause.ENDED


def test_a_column_without_tracing_says_so(fake, tmp_path, machine, model):
    with Launcher(fake, tmp_path, traced=False, machine=machine) as launcher:
        subject = launcher.start(planned(), model)
        subject.ask(asking("open", where="process", path=ACCEL))
        ended = subject.end()
    assert (ended.trace.traced, ended.trace.blind, ended.trace.events) == (False, (), ())


@pytest.mark.parametrize("kind", [Launcher, WarmLauncher])
def test_every_decoy_is_seen_and_nothing_else(kind, fake, tmp_path, machine):
    with kind(fake, tmp_path, machine=machine) as launcher:
        trace, decoys = launcher.control()
    assert trace.blind == ()
    assert sorted(event.path for event in trace.events) == sorted(decoys)
    assert {"open", "openat", "openat2", "open_by_handle_at", "io_uring_setup"} <= {event.call for event in trace.events}
    assert len({event.tid for event in trace.events}) > 2


def test_a_decoy_program_that_fails_is_the_machine_s_fault(fake, tmp_path, machine):
    with (
        Launcher(fake, tmp_path, machine=machine) as launcher,
        pytest.raises(MachineError, match=r"ended with status 3 under the tracer; its last lines:\n  gone"),
    ):
        launcher.trace_program(("/bin/sh", "-c", "echo gone >&2; exit 3"), ("*x*",), ())


@pytest.mark.parametrize("kind", [Launcher, WarmLauncher])
@pytest.mark.parametrize("namespaces", [Namespaces.USER, Namespaces.NONE])
def test_a_machine_that_allows_less_still_starts_traces_and_ends(kind, namespaces, fake, tmp_path, machine, model):
    lesser = dataclasses.replace(machine, namespaces=namespaces)
    with kind(fake, tmp_path, machine=lesser) as launcher:
        subject = launcher.start(planned(), model)
        subject.ask(asking("daemonise"))
        subject.ask(asking("open", where="child", path=ACCEL))
        ended = subject.end()
    assert (ended.trace.blind, [event.path for event in ended.trace.events]) == ((), [ACCEL])


def test_a_device_node_works_in_a_user_namespace_too(fake, tmp_path, machine, model):
    lesser = dataclasses.replace(machine, namespaces=Namespaces.USER)
    with WarmLauncher(fake, tmp_path, machine=lesser) as launcher:
        subject = launcher.start(planned("device"), model)
        assert subject.ask(asking("submit", path=ACCEL, times=1)).status == 200
        assert subject.end().trace.opened.count(ACCEL) == 2


@WARM
def test_the_port_is_free_again(subject):
    port = int(subject.base_url.rpartition(":")[2])
    subject.ask(asking("daemonise"))
    with pytest.raises(OSError, match="in use") as raised, socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
    assert raised.value.errno == errno.EADDRINUSE
    subject.end()
    with contextlib.closing(socket.create_server(("127.0.0.1", port))):
        pass


def test_a_warm_parent_that_preloads_the_subject_is_refused(fake, tmp_path, machine, model):
    poisoned = msgspec.structs.replace(fake, warm=msgspec.structs.replace(fake.warm, preload=("preloads_subject",)))
    (tmp_path / "preloads_subject.py").write_text("import sys\nsys.modules['fake_engine'] = sys\n")
    poisoned = msgspec.structs.replace(
        poisoned,
        environment=msgspec.structs.replace(fake.environment, values={"PYTHONPATH": str(tmp_path)}),
    )
    with (
        WarmLauncher(poisoned, tmp_path, machine=machine) as launcher,
        pytest.raises(MachineError, match=r"preloading imported the subject: \['fake_engine'\]"),
    ):
        launcher.start(planned(), model)


def test_a_warm_parent_with_a_second_thread_forks_nothing(fake, tmp_path, machine, model):
    threaded = msgspec.structs.replace(
        fake,
        warm=msgspec.structs.replace(fake.warm, preload=("starts_thread",)),
        environment=msgspec.structs.replace(fake.environment, values={"PYTHONPATH": str(tmp_path)}),
    )
    (tmp_path / "starts_thread.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    with (
        WarmLauncher(threaded, tmp_path, machine=machine) as launcher,
        pytest.raises(MachineError, match="the parent holds 2 threads after preloading; a fork would copy one of them"),
    ):
        launcher.start(planned(), model)


def test_a_module_that_cannot_be_preloaded_is_the_machine_s_fault(fake, tmp_path, machine, model):
    broken = msgspec.structs.replace(fake, warm=msgspec.structs.replace(fake.warm, preload=("no_such_module",)))
    with (
        WarmLauncher(broken, tmp_path, machine=machine) as launcher,
        pytest.raises(MachineError, match="No module named 'no_such_module'"),
    ):
        launcher.start(planned(), model)
