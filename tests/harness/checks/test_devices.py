from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checks.judge import judge
from harness.records.finding import Verdict
from harness.records.plan import Tier
from harness.records.recording import DeviceEvent, Trace
from tests.harness.checks.families import blind, check_of, findings, result, run_of
from tests.harness.checks.ideal import ACCEL
from tests.harness.checks.tracing import with_trace

CHECK = "device-opens"
MODEL, PACK = "/cache/tiny/model.q4nx", "/cache/mixed/model.safetensors"


def test_a_right_engine_opens_no_device_on_the_host_and_its_container_and_pack_once() -> None:
    got = result(CHECK, run_of(CHECK))
    assert got.findings == ()
    assert got.examined == {"plain": 1, "lookup": 1, "draft": 1, "npu/plain": 1}


def test_a_right_engine_opens_the_device_that_it_was_told_and_no_other() -> None:
    got = result(CHECK, run_of(CHECK, tier=Tier.GATE))
    assert got.findings == ()
    assert set(got.examined) >= {"npu/plain", "npu/lookup", "npu/draft"}


@pytest.mark.parametrize("opened", ["3", "-1 ENOENT", "-1 EACCES"])
@pytest.mark.parametrize("start_id", ["plain", "lookup", "draft"])
def test_a_watched_path_that_was_tried_is_a_finding_whatever_it_returned(start_id: str, opened: str) -> None:
    event = DeviceEvent(call="openat", path="/dev/accel/accel0", tid=41, result=opened, request_id="main-1/5")
    (got,) = findings(CHECK, with_trace(CHECK, start_id, events=(event,)))
    assert (got.start, got.verdict) == (start_id, Verdict.DEVICE)
    assert got.message == "tried a watched path on a host arm during main-1/5"
    assert got.got == f"openat /dev/accel/accel0 = {opened} (tid 41)"


def test_an_ioctl_on_a_watched_path_is_a_finding() -> None:
    event = DeviceEvent(call="ioctl", path="/dev/accel/accel0", tid=41, result="0")
    assert len(findings(CHECK, with_trace(CHECK, "draft", events=(event,)))) == 1


def test_io_uring_is_a_finding_since_its_opens_are_seen_by_nobody() -> None:
    event = DeviceEvent(call="io_uring_setup", path="anon_inode:[io_uring]", tid=41, result="4")
    (got,) = findings(CHECK, with_trace(CHECK, "lookup", events=(event,)))
    assert got.message == "set up io_uring, whose opens nobody sees"


def test_each_stray_open_is_a_finding_of_its_own() -> None:
    event = DeviceEvent(call="openat", path="/dev/accel/accel0", tid=41, result="3")
    again = DeviceEvent(call="openat", path="/dev/accel/accel0", tid=42, result="3")
    assert len(findings(CHECK, with_trace(CHECK, "plain", events=(event, again)))) == 2


@pytest.mark.parametrize(("start_id", "opened"), [("plain", (MODEL, MODEL)), ("draft", (MODEL, PACK, PACK))])
def test_a_container_or_pack_opened_twice_is_a_finding(start_id: str, opened: tuple[str, ...]) -> None:
    (got,) = findings(CHECK, with_trace(CHECK, start_id, opened=opened))
    assert (got.start, got.want, got.got) == (start_id, 1, 2)
    assert got.message == f"opened {opened[-1]} 2 times"


@pytest.mark.parametrize(
    ("start_id", "opened"),
    [("plain", ()), ("draft", (MODEL,)), ("draft", (PACK,)), ("lookup", (MODEL, PACK)), ("plain", (MODEL, "/other/model.q4nx"))],
)
def test_a_start_that_opened_more_or_less_than_its_container_and_pack_is_a_finding(
    start_id: str, opened: tuple[str, ...]
) -> None:
    (got,) = findings(CHECK, with_trace(CHECK, start_id, opened=opened))
    assert (got.start, got.verdict, got.got) == (start_id, Verdict.DEVICE, sorted(opened))


def test_other_files_beside_the_weights_may_be_read_again() -> None:
    config = "/cache/tiny/config.json"
    assert findings(CHECK, with_trace(CHECK, "plain", opened=(MODEL, config, config))) == ()


def test_a_start_that_must_refuse_may_stop_before_it_opens_its_pack() -> None:
    run = run_of(CHECK)
    recordings = tuple(
        msgspec.structs.replace(one, start=msgspec.structs.replace(one.start, expect="refused")) for one in run.recordings
    )
    changed = with_trace(CHECK, "draft", msgspec.structs.replace(run, recordings=recordings), opened=(MODEL,))
    assert [one for one in findings(CHECK, changed) if one.start == "draft"] == []


def opening(**changes: Any) -> DeviceEvent:
    return msgspec.structs.replace(DeviceEvent("openat", ACCEL, 8, "7"), **changes)


def found_with(*events: DeviceEvent) -> list[tuple[str, Any, Any]]:
    """Return (message, want, got) of what is found when the device's plain arm makes these events."""
    found = findings(CHECK, with_trace(CHECK, "npu/plain", events=events))
    assert {(one.start, one.verdict) for one in found} <= {("npu/plain", Verdict.DEVICE)}
    return [(one.message, one.want, one.got) for one in found]


def test_a_device_opened_twice_is_a_finding() -> None:
    told = f"openat {ACCEL} = 7 (tid 8)"
    assert found_with(opening(), opening()) == [("opened its device 2 times", 1, [told, told])]


def test_a_device_that_is_never_opened_is_a_finding() -> None:
    assert found_with() == [("opened its device 0 times", 1, [])]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"by_child": True}, "its device was opened by another process than its own"),
        ({"request_id": "main-1/5"}, "opened its device during main-1/5, not before it was ready"),
        ({"result": "-1 EACCES"}, "could not open its device"),
    ],
    ids=["by a child", "late", "in vain"],
)
def test_a_device_opened_once_but_not_as_it_must_be_is_a_finding(changes: dict[str, Any], message: str) -> None:
    assert [(said, want) for said, want, _ in found_with(opening(**changes))] == [(message, f"one open of {ACCEL}")]


@pytest.mark.parametrize("call", ["openat", "ioctl"])
def test_a_watched_path_beside_the_one_that_a_device_arm_was_told_is_a_finding(call: str) -> None:
    other = DeviceEvent(call, "/dev/accel/accel1", 8, "-1 ENOENT", "main-1/5")
    (got,) = found_with(opening(), other)
    assert got == (
        f"tried a watched path beside {ACCEL} during main-1/5",
        "no watched path",
        f"{call} /dev/accel/accel1 = -1 ENOENT (tid 8)",
    )


def test_io_uring_on_a_device_arm_is_a_finding() -> None:
    (got,) = found_with(opening(), DeviceEvent("io_uring_setup", "anon_inode:[io_uring]", 8, "4"))
    assert got[0] == "set up io_uring, whose opens nobody sees"


def test_a_device_arm_of_which_nobody_says_what_it_was_told_is_blind() -> None:
    run = run_of(CHECK)
    recordings = tuple(msgspec.structs.replace(one, device="") for one in run.recordings)
    (got,) = findings(CHECK, msgspec.structs.replace(run, recordings=recordings))
    assert (got.start, got.verdict) == ("npu/plain", Verdict.BLIND)


def test_a_host_arm_that_opens_a_device_that_another_arm_was_told_is_a_finding() -> None:
    assert [one.start for one in findings(CHECK, with_trace(CHECK, "plain", events=(opening(by_child=True),)))] == ["plain"]


def test_a_blind_trace_is_blind_and_says_why() -> None:
    (got,) = findings(CHECK, with_trace(CHECK, "plain", blind=("thread 7 has no exit line",)))
    assert (got.start, got.verdict, got.got) == ("plain", Verdict.BLIND, "thread 7 has no exit line")


def test_a_trace_that_holds_no_open_at_all_is_blind() -> None:
    assert blind(findings(CHECK, with_trace(CHECK, "plain", num_opens=0))) == ["the trace holds no open at all"]


@pytest.mark.parametrize("num_untraced", [1, 3])
def test_a_run_with_starts_that_were_not_traced_is_not_tested_and_not_passed(num_untraced: int) -> None:
    run = run_of(CHECK)
    untraced = [msgspec.structs.replace(one, trace=Trace(traced=False)) for one in run.recordings[:num_untraced]]
    plan = msgspec.structs.replace(run.plan, checks=(CHECK, "accounting"))
    run = msgspec.structs.replace(run, plan=plan, recordings=(*untraced, *run.recordings[num_untraced:]))
    got = judge(run, [check_of("accounting"), check_of(CHECK)])
    assert (got.verdict, got.findings, set(got.not_tested)) == (Verdict.NOT_TRACED, (), {CHECK})
