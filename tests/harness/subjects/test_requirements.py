"""What a subject needs of a machine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.errors import MachineError
from harness.records.checkup import Item, State
from harness.subjects.description import Description, load_description
from harness.subjects.requirements import examined, missing, require
from harness.subjects.tables import Arm, Fixtures, Requirements

FAR_TOO_MUCH = 1 << 40  # MiB


def needing(**requires: tuple[str, ...] | str | int) -> Description:
    return msgspec.structs.replace(load_description("forward-serve"), requires=Requirements(**requires))  # type: ignore[arg-type]


def test_what_is_there_is_not_missed(tmp_path: Path) -> None:
    description = needing(modules=("json",), programs=("sh",), devices=("/dev/nul*",), memory_mib=1, disk_mib=1)
    require(description, tmp_path)
    assert [(item.what, item.state, item.fix) for item in examined(description, tmp_path)] == [
        ("the Python module json", State.THERE, ""),
        ("the program sh on PATH", State.THERE, ""),
        ("the device /dev/nul*", State.THERE, ""),
        ("1 MiB of memory", State.THERE, ""),
        (f"1 MiB of room at {tmp_path}", State.THERE, ""),
    ]


def test_what_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    description = needing(
        modules=("json", "no_such_module", "no_such.module"),
        programs=("no-such-program",),
        devices=("/dev/no-such-device*",),
        memory_mib=FAR_TOO_MUCH,
        disk_mib=FAR_TOO_MUCH,
        hint="buy one",
    )
    assert missing(description, tmp_path / "not" / "made" / "yet") == (
        "the Python module no_such_module",
        "the Python module no_such.module",
        "the program no-such-program on PATH",
        "the device /dev/no-such-device*",
        f"{FAR_TOO_MUCH} MiB of memory",
        f"{FAR_TOO_MUCH} MiB of room at {tmp_path / 'not' / 'made' / 'yet'}",
    )
    message = "needs the Python module no_such_module, .* on PATH, .*; buy one; `draftproof doctor --subject forward-serve` looks"
    with pytest.raises(MachineError, match=message):
        require(description)


def test_a_model_in_gguf_needs_the_module_that_writes_it() -> None:
    description = msgspec.structs.replace(needing(), fixtures=Fixtures(format="gguf"))
    assert [item.what for item in examined(description)] == ["the Python module gguf"]


def test_a_device_that_an_arm_opens_as_it_is_must_be_there_and_one_that_is_made_need_not() -> None:
    arms = {"npu": Arm(device="/dev/accel/no-such", real_device=True), "made": Arm(device="/dev/accel/accel0")}
    description = msgspec.structs.replace(needing(hint="buy one"), arms=arms)
    assert list(examined(description)) == [Item("the device /dev/accel/no-such", State.MISSING, "not found", "buy one")]
