"""What a device arm is told to open: seen by its subject alone, watched, and named in what is left of the subject."""

import dataclasses
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from harness.errors import MachineError
from harness.records.recording import ArmFacts
from harness.runs.driver import Setting, record_start
from harness.subjects.column import Launcher
from harness.subjects.description import load_description
from harness.subjects.device import GivenDevice, given_device
from harness.subjects.launch import Places, render
from harness.subjects.process_tree import Job, ProcessTree
from harness.subjects.warm import WarmLauncher
from harness.tracing.machine import Namespaces

from .conftest import WARM, asking, planned

ACCEL = "/dev/accel/accel0"


def test_an_arm_without_a_device_is_given_none(tmp_path):
    assert given_device("") is None
    assert given_device("", tmp_path) is None


def test_a_private_node_has_the_path_that_the_arm_names():
    given = given_device(ACCEL)
    assert given == GivenDevice(ACCEL, is_private=True)
    assert (given.node, given.watched, given.fact) == (ACCEL, ACCEL, f"private node {ACCEL}")


def test_where_no_mount_is_allowed_a_file_stands_for_the_node(tmp_path):
    folder = tmp_path / "start[1]"
    folder.mkdir()
    given = given_device(ACCEL, folder)
    assert Path(given.path).read_bytes() == b""
    assert (given.node, given.fact) == ("", f"configured path {given.path}")
    assert given.watched == given.path.replace("[", "[[]")


def test_a_launch_line_names_the_file_that_stands_for_the_node(fake):
    places = Places("/py", Path("/m"), None, Path("/s"), device=GivenDevice("/s/device-node", is_private=False))
    command = render(fake, planned("device"), places, {})
    assert (command.argv[-2:], command.device) == (("--device", "/s/device-node"), "")


def test_device_arms_are_declared_with_their_node_and_the_rows_of_their_passes():
    declared = load_description("forward-serve").declared()
    assert declared.arms["npu-lookup"] == ArmFacts("lookup", "lookup-321", "engaged", ACCEL, 8)
    assert [declared.width_of(arm) for arm in ("npu", "npu-draft", "plain")] == [8, 8, 16]


class Locator:
    """Names one model for all."""

    def __init__(self, model: Path) -> None:
        self._model = model

    def model(self, _name: str) -> Path:
        return self._model

    def pack(self, _name: str) -> Path:
        raise NotImplementedError


def recorded(launcher, fake, model, arm: str):
    return record_start(planned(arm), Setting(fake.name, Locator(model)), launcher)


def test_a_recording_names_the_node_that_its_subject_was_told_to_open(launcher, fake, model):
    recording = recorded(launcher, fake, model, "device")
    assert (recording.device, recording.facts) == (ACCEL, {"device": f"private node {ACCEL}"})
    assert [(event.call, event.path, event.by_child) for event in recording.trace.events] == [("openat", ACCEL, False)]
    host = recorded(launcher, fake, model, "plain")
    assert (host.device, host.facts, host.trace.events) == ("", {}, ())


@pytest.mark.parametrize("kind", [Launcher, WarmLauncher])
def test_without_namespaces_the_recording_says_which_path_was_configured(kind, fake, tmp_path, machine, model):
    lesser = dataclasses.replace(machine, namespaces=Namespaces.NONE)
    with kind(fake, tmp_path, machine=lesser) as launcher:
        recording = recorded(launcher, fake, model, "device")
        subject = launcher.start(planned("device"), model)
        path = str(subject.scratch / "device-node")
        assert subject.ask(asking("submit", "three", path=path, times=3)).status == 200
        ended = subject.end()
    assert recording.facts == {"device": f"configured path {recording.device}"}
    assert [(event.call, event.path) for event in recording.trace.events] == [("openat", recording.device)]
    assert (ended.device.path, ended.trace.blind) == (path, ())
    assert [event.request_id for event in ended.trace.events if event.call == "ioctl"] == ["three"] * 3


def test_submits_are_counted_exactly_beside_a_sibling_that_submits_elsewhere(fake, tmp_path, machine, model):
    tracing = msgspec.structs.replace(fake.tracing, watched_paths=(*fake.watched_paths, "/dev/zero"))
    numbers = {f"submits-{number}": number for number in (1, 7, 0, 3, 12, 5)}
    with WarmLauncher(msgspec.structs.replace(fake, tracing=tracing), tmp_path, machine=machine) as launcher:
        subject = launcher.start(planned("device"), model)
        assert subject.ask(asking("noise")).status == 200
        for name, number in numbers.items():
            assert subject.ask(asking("submit", name, path=ACCEL, times=number)).status == 200
        trace = subject.end().trace
    submits = [event for event in trace.events if event.call == "ioctl" and event.path == ACCEL]
    noise = Counter(event.request_id for event in trace.events if event.path == "/dev/zero" and event.by_child)
    assert trace.blind == ()
    assert Counter(event.request_id for event in submits) == Counter(numbers)
    assert {event.by_child for event in submits} == {False}
    assert all(noise[name] >= number for name, number in numbers.items())  # the sibling was at work between them


@WARM
def test_an_open_by_a_child_is_told_from_one_by_the_subject_s_threads(launcher, subject):
    for where in ("process", "child"):
        subject.ask(asking("open", where, where=where, path=ACCEL))
    assert [(event.request_id, event.by_child) for event in subject.end().trace.events] == [("process", False), ("child", True)]


def test_a_column_without_namespaces_makes_no_node(tmp_path, machine, fake):
    lesser = dataclasses.replace(machine, namespaces=Namespaces.NONE)
    with Launcher(fake, tmp_path, machine=lesser) as launcher:
        tree = ProcessTree(lesser, tmp_path, launcher._spawner, core=0, traced=False)
        with pytest.raises(MachineError, match="a device node for one subject needs a mount namespace; allow unshare"):
            tree.start(Job(argv=("/bin/true",), environment={}, folder="/", device=ACCEL), 2, None)
        tree.close()
