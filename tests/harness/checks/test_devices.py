from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.checks.judge import judge
from harness.records.finding import Verdict
from harness.records.recording import DeviceEvent, Run, Trace
from tests.harness.checks.families import blind, check_of, findings, result, run_of

CHECK = "device-opens"
MODEL, PACK = "/cache/tiny/model.q4nx", "/cache/mixed/model.safetensors"


def with_trace(start_id: str, run: Run | None = None, **changes: Any) -> Run:
    """Return a clean run with the trace of one start changed."""
    run = run or run_of(CHECK)
    recordings = tuple(
        msgspec.structs.replace(one, trace=msgspec.structs.replace(one.trace, **changes)) if one.start.id == start_id else one
        for one in run.recordings
    )
    return msgspec.structs.replace(run, recordings=recordings)


def test_a_right_engine_opens_no_device_and_its_container_and_pack_once() -> None:
    got = result(CHECK, run_of(CHECK))
    assert got.findings == ()
    assert got.examined == {"plain": 1, "lookup": 1, "draft": 1}


@pytest.mark.parametrize("opened", ["3", "-1 ENOENT", "-1 EACCES"])
@pytest.mark.parametrize("start_id", ["plain", "lookup", "draft"])
def test_a_watched_path_that_was_tried_is_a_finding_whatever_it_returned(start_id: str, opened: str) -> None:
    event = DeviceEvent(call="openat", path="/dev/accel/accel0", tid=41, result=opened, request_id="main-1/5")
    (got,) = findings(CHECK, with_trace(start_id, events=(event,)))
    assert (got.start, got.verdict) == (start_id, Verdict.DEVICE)
    assert got.message == "tried a watched path on a host arm during main-1/5"
    assert got.got == f"openat /dev/accel/accel0 = {opened} (tid 41)"


def test_an_ioctl_on_a_watched_path_is_a_finding() -> None:
    event = DeviceEvent(call="ioctl", path="/dev/accel/accel0", tid=41, result="0")
    assert len(findings(CHECK, with_trace("draft", events=(event,)))) == 1


def test_io_uring_is_a_finding_since_its_opens_are_seen_by_nobody() -> None:
    event = DeviceEvent(call="io_uring_setup", path="anon_inode:[io_uring]", tid=41, result="4")
    (got,) = findings(CHECK, with_trace("lookup", events=(event,)))
    assert got.message == "set up io_uring, whose opens nobody sees"


def test_each_stray_open_is_a_finding_of_its_own() -> None:
    event = DeviceEvent(call="openat", path="/dev/accel/accel0", tid=41, result="3")
    again = DeviceEvent(call="openat", path="/dev/accel/accel0", tid=42, result="3")
    assert len(findings(CHECK, with_trace("plain", events=(event, again)))) == 2


@pytest.mark.parametrize(("start_id", "opened"), [("plain", (MODEL, MODEL)), ("draft", (MODEL, PACK, PACK))])
def test_a_container_or_pack_opened_twice_is_a_finding(start_id: str, opened: tuple[str, ...]) -> None:
    (got,) = findings(CHECK, with_trace(start_id, opened=opened))
    assert (got.start, got.want, got.got) == (start_id, 1, 2)
    assert got.message == f"opened {opened[-1]} 2 times"


@pytest.mark.parametrize(
    ("start_id", "opened"),
    [("plain", ()), ("draft", (MODEL,)), ("draft", (PACK,)), ("lookup", (MODEL, PACK)), ("plain", (MODEL, "/other/model.q4nx"))],
)
def test_a_start_that_opened_more_or_less_than_its_container_and_pack_is_a_finding(
    start_id: str, opened: tuple[str, ...]
) -> None:
    (got,) = findings(CHECK, with_trace(start_id, opened=opened))
    assert (got.start, got.verdict, got.got) == (start_id, Verdict.DEVICE, sorted(opened))


def test_other_files_beside_the_weights_may_be_read_again() -> None:
    config = "/cache/tiny/config.json"
    assert findings(CHECK, with_trace("plain", opened=(MODEL, config, config))) == ()


def test_a_start_that_must_refuse_may_stop_before_it_opens_its_pack() -> None:
    run = run_of(CHECK)
    recordings = tuple(
        msgspec.structs.replace(one, start=msgspec.structs.replace(one.start, expect="refused")) for one in run.recordings
    )
    assert findings(CHECK, with_trace("draft", msgspec.structs.replace(run, recordings=recordings), opened=(MODEL,))) == ()


def test_a_blind_trace_is_blind_and_says_why() -> None:
    (got,) = findings(CHECK, with_trace("plain", blind=("thread 7 has no exit line",)))
    assert (got.start, got.verdict, got.got) == ("plain", Verdict.BLIND, "thread 7 has no exit line")


def test_a_trace_that_holds_no_open_at_all_is_blind() -> None:
    assert blind(findings(CHECK, with_trace("plain", num_opens=0))) == ["the trace holds no open at all"]


@pytest.mark.parametrize("num_untraced", [1, 3])
def test_a_run_with_starts_that_were_not_traced_is_not_tested_and_not_passed(num_untraced: int) -> None:
    run = run_of(CHECK)
    untraced = [msgspec.structs.replace(one, trace=Trace(traced=False)) for one in run.recordings[:num_untraced]]
    plan = msgspec.structs.replace(run.plan, checks=(CHECK, "accounting"))
    run = msgspec.structs.replace(run, plan=plan, recordings=(*untraced, *run.recordings[num_untraced:]))
    got = judge(run, [check_of("accounting"), check_of(CHECK)])
    assert (got.verdict, got.findings, set(got.not_tested)) == (Verdict.NOT_TRACED, (), {CHECK})
