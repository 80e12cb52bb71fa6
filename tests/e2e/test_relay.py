"""The relay's process before the fake engine: in a traced column, and by itself."""

from __future__ import annotations

import datetime
import io
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import requests
from rich.console import Console

from harness.mutation.matrix import ExitCode
from harness.mutation.mutate import Options, Surroundings, mutate
from harness.mutation.relaying import NEUTRAL, ROOT, relayed, settings_of
from harness.mutation.transparent import differences
from harness.records.plan import Plan, Request, Start, Tier
from harness.records.recording import Answer, Run
from harness.runs.driver import Setting, record_start
from harness.subjects.column import Launcher, NeverReadyError
from harness.subjects.description import Description, load_description

pytestmark = pytest.mark.e2e

FAKE = Path(__file__).parents[1] / "harness" / "subjects" / "fake" / "fake.toml"
PATIENCE_S = 20.0
WATCHED = "/dev/accel/accel7"


class Models:
    """One model folder, whatever is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "weights").write_text("w")

    def model(self, _name: str) -> Path:
        return self.folder

    def pack(self, _name: str) -> Path:
        return self.folder


@pytest.fixture
def models(tmp_path: Path) -> Models:
    folder = tmp_path / "model"
    folder.mkdir()
    return Models(folder)


@pytest.fixture(scope="module")
def fake() -> Description:
    return load_description(FAKE)


def behind(description: Description, folder: Path, **fault: Any) -> Description:
    """Return the description of the subject behind a relay with this fault."""
    settings = folder / "relay.json"
    settings.write_bytes(settings_of(description, fault or NEUTRAL))
    return relayed(description, settings)


def ask(act: str, number: int, **fields: Any) -> Request:
    leave = fields.pop("leave", None)
    return Request(id=f"{number}-{act}", checks=(), body={"act": act, **fields}, leave_after_chunks=leave, deadline_s=10.0)


def start(*asked: Request, arm: str = "plain") -> Start:
    return Start(id=arm, arm=arm, model="m", requests=asked)


def recorded(description: Description, models: Models, workdir: Path, *starts: Start) -> Run:
    setting = Setting(description.name, models)
    with Launcher(description, workdir) as launcher:
        recordings = tuple(record_start(one, setting, launcher) for one in starts)
    return Run(Plan(Tier.MUTATION, "r", starts, ()), description.name, description.declared(), recordings)


ASKED = (
    ask("answer", 1),
    ask("stream", 2, chunks=5, stream=True),
    ask("lines", 3, lines=["odd \u00e4 line", "[spec] id=NAME path=spec"]),
    ask("body", 4, status=404, content='{"id": "NAME", "x": 1}'),
    ask("raw", 5, raw="HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}"),
    ask("stream", 6, chunks=20000, stream=True, leave=2),
    ask("answer", 7, text="\u00e4\u20ac"),
    ask("late-line", 8),
    ask("fail", 9),
)


def test_without_a_fault_every_answer_log_line_and_open_is_the_same_as_without_a_relay(
    fake: Description, models: Models, tmp_path: Path
) -> None:
    starts = (start(*ASKED), start(ask("answer", 1), arm="device"))
    direct = recorded(fake, models, tmp_path, *starts)
    through = recorded(behind(fake, tmp_path), models, tmp_path, *starts)
    assert list(differences(direct, through)) == []
    for one, other in zip(direct.recordings, through.recordings, strict=True):
        assert alike(one.log) == alike(other.log)
        assert one.ready_line != other.ready_line  # each names its own port
        assert other.failure == ""
    opens = [(event.path, event.by_child) for event in through.recordings[1].trace.events]
    assert opens == [("/dev/accel/accel0", False)]  # the subject's own, though the relay is the launched process


def test_the_probe_of_the_relay_names_an_answer_that_is_not_the_same(fake: Description, models: Models, tmp_path: Path) -> None:
    plain = start(ask("answer", 1), ask("answer", 2))
    direct = recorded(fake, models, tmp_path, plain)
    through = recorded(behind(fake, tmp_path, fault="token-dropped"), models, tmp_path, plain)
    assert list(differences(direct, through)) == [
        "plain 1-answer: body, reply: not as without the relay",
        "plain 2-answer: body, reply: not as without the relay",
    ]


def alike(log: Sequence[str]) -> list[str]:
    """Return a log without what differs each time: the port, and how far a request came whose client left."""
    return [re.sub(r"(port|tokens)=\d+(?=.*cancelled| backend)", r"\1=N", line) for line in log]


def reply_of(run: Run, index: int = 0) -> Answer:
    return run.recordings[0].answers[index]


def test_a_fault_changes_the_replies_that_it_is_for_and_the_counts_in_line_and_answer(
    fake: Description, models: Models, tmp_path: Path
) -> None:
    dropped = reply_of(recorded(behind(fake, tmp_path, fault="token-dropped"), models, tmp_path, start(ask("answer", 1))))
    assert dropped.reply is not None
    assert (dropped.reply.text, dropped.reply.ids, dropped.reply.completion_tokens) == ("ac", (64, 66), 2)
    values = {"drafted": 9, "accepted": 2}
    counted = reply_of(
        recorded(behind(fake, tmp_path, fault="counts-set", values=values), models, tmp_path, start(ask("answer", 1)))
    )
    assert counted.failure == ""
    assert counted.counts == counted.usage_counts
    assert counted.counts is not None
    assert (counted.counts.drafted, counted.counts.accepted) == (9, 2)
    doubled = reply_of(recorded(behind(fake, tmp_path, fault="line-times", times=2), models, tmp_path, start(ask("answer", 1))))
    assert doubled.failure.startswith("counts: 2 lines of one request")


@pytest.mark.parametrize(("fault", "reason"), [({}, "cancelled"), ({"fault": "request-kept"}, "-")])
def test_a_client_that_leaves_ends_its_request_unless_the_fault_hides_it(
    fake: Description, models: Models, tmp_path: Path, fault: dict[str, Any], reason: str
) -> None:
    asked = start(ask("stream", 1, chunks=20000, stream=True, leave=2), ask("answer", 2))
    run = recorded(behind(fake, tmp_path, **fault), models, tmp_path, asked)
    left, after = run.recordings[0].answers
    assert left.failure == "left"
    assert left.counts is not None
    assert left.counts.reason == reason
    assert after.status == 200


@pytest.mark.parametrize(("by", "by_child"), [("process", True), ("child", False)])
def test_an_extra_open_is_seen_by_the_tracer_whoever_of_the_relay_makes_it(
    fake: Description, models: Models, tmp_path: Path, by: str, by_child: bool
) -> None:
    fault = {"fault": "device-opened", "by": by, "path": WATCHED}
    run = recorded(behind(fake, tmp_path, **fault), models, tmp_path, start(ask("answer", 1)))
    (event,) = run.recordings[0].trace.events
    assert (event.path, event.by_child, event.request_id) == (WATCHED, by_child, "")


def test_a_subject_that_refuses_to_start_says_so_through_the_relay_with_its_own_status(
    fake: Description, models: Models, tmp_path: Path
) -> None:
    with Launcher(behind(fake, tmp_path), tmp_path) as launcher:
        one = msgspec.structs.replace(start(), parameters={"refuse": "fake: --refuse: no"})
        ended = launcher.refused(one, models.folder)
    assert (ended.exit_status, ended.log) == (2, ("fake: --refuse: no",))


def test_a_subject_that_dies_ends_the_relay_with_its_status(fake: Description, models: Models, tmp_path: Path) -> None:
    run = recorded(behind(fake, tmp_path), models, tmp_path, start(ask("exit", 1, status=7)))
    assert run.recordings[0].exit_status == 7
    assert run.recordings[0].failure.startswith("died with status 7 before it was ended")


def test_a_subject_that_is_never_ready_is_never_ready_behind_the_relay(fake: Description, models: Models, tmp_path: Path) -> None:
    hasty = msgspec.structs.replace(fake, ready=msgspec.structs.replace(fake.ready, timeout_s=1.0))
    with Launcher(behind(hasty, tmp_path), tmp_path) as launcher, pytest.raises(NeverReadyError, match="loading for ever"):
        launcher.start(start(arm="never-ready"), models.folder)


def given_port(fake: Description) -> Description:
    """Return the fake engine as one that picks no port and says nothing when it is ready."""
    launch = msgspec.structs.replace(fake.launch, hands_over_socket=False, needs_port=True)
    return msgspec.structs.replace(fake, launch=launch, ready=msgspec.structs.replace(fake.ready, line=""))


def test_a_subject_that_is_given_its_port_gets_another_one_behind_the_relay(
    fake: Description, models: Models, tmp_path: Path
) -> None:
    run = recorded(behind(given_port(fake), tmp_path), models, tmp_path, start(ask("facts", 1), ask("answer", 2)))
    facts, answer = run.recordings[0].answers
    port = facts.body["facts"]["argv"][-1]
    assert port.isdigit()
    assert port != "0"
    assert answer.status == 200


@contextmanager
def alone(fake: Description, models: Models, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a relay without a column; give its process and the address that its subject's ready line names."""
    settings = models.folder / "relay.json"
    settings.write_bytes(settings_of(fake, NEUTRAL))
    boot = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from harness.mutation.relay.process import main; sys.exit(main(sys.argv[1:]))"
    engine = [sys.executable, "-B", "-m", "fake_engine", "-m", str(models.folder), *words]
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", boot, str(settings), "0", "--", *engine],
        stderr=subprocess.PIPE,
        text=True,
        cwd=FAKE.parent,
    ) as process:
        try:
            assert process.stderr is not None
            ready = next((found for line in process.stderr if (found := re.search(r"\[ready\] port=(\d+)", line))), None)
            assert ready is not None, process.wait(PATIENCE_S)
            yield process, f"http://127.0.0.1:{ready[1]}"
        finally:
            process.kill()


def await_end(processes: Sequence[psutil.Process]) -> list[int]:
    """Wait for processes that need not be children; return those that live on."""
    _, alive = psutil.wait_procs(processes, PATIENCE_S)
    return [process.pid for process in alive]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, -15), (signal.SIGINT, -15), (signal.SIGKILL, -9)])
def test_a_relay_that_is_told_to_end_or_killed_leaves_no_process(
    fake: Description, models: Models, number: int, status: int
) -> None:
    with alone(fake, models) as (process, url):
        assert requests.post(f"{url}/v1/completions", json={"act": "answer"}, timeout=PATIENCE_S).json()["id"] == "cmpl-1"
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 1
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == status
        assert await_end(children) == []


def test_a_launch_line_that_is_none_is_refused_in_one_line() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from harness.mutation.relay.process import main; sys.exit(main(['x']))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 2
    assert done.stderr == "relay: ['x']: want SETTINGS PORT -- COMMAND...; give the subject's launch line behind --\n"


def test_two_faults_of_the_relay_are_killed_on_the_reference_engine_without_its_source(tmp_path: Path) -> None:
    for name in ("mutants/relay", "harness/mutation/relay"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    around = Surroundings(console, datetime.datetime(2030, 1, 2, tzinfo=datetime.UTC), {})
    options = Options(relay=True, root=tmp_path, only=("stream-finishes-twice", "device-submitted-once-too-often"))
    code = mutate(options, around=around)
    assert isinstance(console.file, io.StringIO)
    assert code is ExitCode.PROVEN, console.file.getvalue()
    assert "2 of 2 killed by their named checks" in console.file.getvalue()
    (folder,) = (tmp_path / "reports").iterdir()
    assert folder.name == "mutate-relay-forward-serve-20300102T000000Z"
    assert (folder / "diffs" / "stream-finishes-twice.diff").read_text() == "fault = 'stream-finish-doubled'\n"
