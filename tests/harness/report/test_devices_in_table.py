"""The closing table counts opens apart from submits, and calls a device simulated."""

from __future__ import annotations

from harness.records.finding import Judgement, Verdict
from harness.records.plan import Plan, Start, Tier
from harness.records.recording import ArmFacts, Declared, DeviceEvent, Recording, Run, Trace
from harness.report.text import gate_table

ACCEL = "/dev/accel/accel0"
FACT = f"private node {ACCEL}"
EVENTS = (DeviceEvent("openat", ACCEL, 8, "7"), *[DeviceEvent("ioctl", ACCEL, 8, "-1 ENOTTY")] * 12)


def recorded(name: str, device: str, trace: Trace) -> Recording:
    start = Start(id=name, arm="a", model="tiny", requests=())
    return Recording("s", start, (), trace, (), None, device=device, facts={"device": FACT} if device else {})


def table(*recordings: Recording) -> list[str]:
    plan = Plan(Tier.GATE, "tiny@1", tuple(one.start for one in recordings), ())
    run = Run(plan, "s", Declared({"a": ArmFacts()}), recordings)
    return gate_table(run, Judgement(Verdict.LOSSLESS, ())).split("\n")


def test_opens_are_counted_apart_from_submits() -> None:
    lines = table(recorded("plain", "", Trace(True)), recorded("npu/plain", ACCEL, Trace(True, events=EVENTS)))
    assert lines[0].split() == ["start", "requests", "engaged", "drafted", "accepted", "opens", "submits", "seconds"]
    assert [line.split()[5:7] for line in lines[2:4]] == [["0", "0"], ["1", "12"]]
    assert lines[4].split()[-3:-1] == ["1", "12"]


def test_a_device_is_called_simulated_with_what_was_opened_and_by_whom() -> None:
    lines = table(*(recorded(name, ACCEL, Trace(True)) for name in ("npu/plain", "npu/draft")))
    assert lines[-1] == f"simulated device: {FACT} of npu/plain, npu/draft"


def test_a_run_without_a_device_says_nothing_of_one() -> None:
    assert [line for line in table(recorded("plain", "", Trace(True))) if "device" in line] == []


def test_opens_and_submits_that_nobody_traced_are_not_counted_as_none() -> None:
    lines = table(recorded("plain", "", Trace(True)), recorded("npu/plain", ACCEL, Trace(False)))
    assert lines[4].count("not traced") == 2
