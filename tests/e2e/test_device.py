"""The running engine on a simulated device, under the tracer: what it opens, what it submits, and what it refuses."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.records.plan import Request, Start
from harness.subjects.column import Launcher
from harness.subjects.description import load_description
from harness.subjects.warm import WarmLauncher
from tests.forward_serve.serving.golden import unpack_container, write_pack

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
ACCEL = "/dev/accel/accel0"
ACCEL_MAJOR = 261
COPIED = (5, 6, 7, 8, 9) * 5  # 25 tokens: four prefill passes of a device, two of the host
KINDS = {"cold": Launcher, "warm": WarmLauncher}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the golden container `tiny` and a pack `pack`."""
    directory = tmp_path_factory.mktemp("engine")
    unpack_container(directory / "tiny")
    write_pack(directory / "pack", seed=10)
    return directory


@pytest.fixture(params=list(KINDS))
def launcher(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Launcher]:
    """A column of each kind."""
    with KINDS[request.param](load_description("forward-serve"), tmp_path) as one:
        yield one


def start_of(arm: str, *, pack: str | None = None, **parameters: str | int | float) -> Start:
    return Start(id=arm, arm=arm, model="tiny", requests=(), pack=pack, parameters=parameters)


def asking(name: str, max_tokens: int) -> Request:
    body = {"prompt": list(COPIED), "max_tokens": max_tokens, "temperature": 0, "return_spec": True, "return_token_ids": True}
    return Request(id=name, checks=(), body=body, prompt_ids=COPIED)


@pytest.mark.parametrize(
    ("start", "drafter"),
    [
        (start_of("npu"), "drafter=none k=0"),
        (start_of("npu-lookup", k=15), "drafter=lookup k=7 capped-from=15"),
        (start_of("npu-draft", pack="pack"), "drafter=dflash k=5"),
    ],
    ids=["plain", "lookup", "draft"],
)
def test_an_arm_opens_its_device_once_and_submits_each_pass(launcher: Launcher, files: Path, start: Start, drafter: str) -> None:
    subject = launcher.start(start, files / "tiny", files / "pack" if start.pack else None)
    assert f" backend=npu device=simulated {drafter} width=8 " in subject.ready_line
    answers = [subject.ask(asking(name, budget)) for name, budget in (("one", 1), ("twelve", 12), ("again", 12))]
    subject.ask(Request(id="refused", checks=(), body={"prompt": "a", "max_tokens": 0}))
    trace = subject.end().trace
    assert trace.blind == ()
    opens = [event for event in trace.events if event.call != "ioctl"]
    assert [(event.path, event.by_child, event.request_id) for event in opens] == [(ACCEL, False, "")]
    submits = Counter(event.request_id for event in trace.events if event.call == "ioctl")
    counts = {answer.request_id: answer.counts for answer in answers if answer.counts}
    want = {name: 4 + (one.rounds or 0) + (one.plain or 0) for name, one in counts.items()}
    assert submits == Counter({"": 1, **want})
    assert want["one"] == 4
    assert want["twelve"] == want["again"] > 4


def test_a_host_arm_opens_and_submits_nothing(launcher: Launcher, files: Path) -> None:
    subject = launcher.start(start_of("lookup", k=4), files / "tiny")
    subject.ask(asking("twelve", 12))
    assert subject.end().trace.events == ()


def test_a_device_that_is_not_there_is_refused_by_name_and_never_tried(launcher: Launcher, files: Path) -> None:
    ended = launcher.refused(start_of("npu-missing-device"), files / "tiny")
    assert ended.exit_status == 2
    (line,) = ended.log
    assert line.startswith("--device=/")
    assert "/no-such-device: No such file or directory; the simulated device is a path that can be opened" in line
    assert ended.trace.events == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes; the rule is tested on a made-up stat elsewhere")
def test_a_real_accelerator_is_refused_by_its_number(files: Path, tmp_path: Path) -> None:
    node = tmp_path / "accel0"
    os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(ACCEL_MAJOR, 0))
    command = [sys.executable, "-m", "forward_serve", "-m", str(files / "tiny"), "-p", "0", "--backend", "npu"]
    done = subprocess.run([*command, "--device", str(node)], cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"--device={node}: character device {ACCEL_MAJOR}:0 is an accelerator; ")
    assert done.stderr.count("\n") == 1
