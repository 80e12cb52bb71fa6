"""Faults by name: every one can be made, and what the catalogue says wrong is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.mutation.relay.devices import touch
from harness.mutation.relay.registry import FAULTS, build
from tests.harness.mutation.relay.bodies import asked, fault


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_can_be_made_by_its_name(name: str) -> None:
    assert type(build({"fault": name})) is FAULTS[name]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"fault": "token-tripled"}, "fault='token-tripled' is unknown; use one of nothing, token-doubled"),
        ({}, "fault='' is unknown"),
        ({"fault": "token-dropped", "place": 3}, "token-dropped: place is unknown; use of none"),
        ({"fault": "line-times", "times": "2"}, "line-times: times='2' is no int"),
        ({"fault": "line-times", "times": True}, "line-times: times=True is no int"),
        ({"fault": "nothing", "when": {"drafts": True}}, "when: drafts is unknown; use of first, asks"),
        ({"fault": "nothing", "when": {"accepted": 1}}, "when: accepted=1 is no bool"),
    ],
)
def test_an_unknown_name_parameter_or_type_is_named(table: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace("(", r"\(")):
        build(table)


def test_a_fault_without_a_change_changes_nothing() -> None:
    one = fault("nothing")
    assert (one.request(asked()), one.answer(asked(), 200, {}), one.event(asked(), {}), one.line("x")) == (None, None, None, None)
    assert (one.close(asked()), one.metrics({"drafted": 3})) == ([], {"drafted": 3})


@pytest.mark.parametrize("by", ["process", "child"])
def test_a_device_is_opened_once_more_at_the_start_or_for_each_request(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tmp_path / "opened"

    def note(path: str, *, submits: bool = False) -> None:
        with opened.open("a") as stream:
            stream.write(f"{path} {os.getpid() == own}\n")

    own = os.getpid()
    monkeypatch.setattr("harness.mutation.relay.devices.touch", note)
    at_start = fault("device-opened", by=by, path="/dev/a")
    at_start.begin()
    at_start.request(asked())
    fault("device-opened", by=by, at="request", path="/dev/b").request(asked())
    assert opened.read_text() == f"/dev/a {by == 'process'}\n/dev/b {by == 'process'}\n"


def test_what_is_no_device_is_tried_and_no_error(tmp_path: Path) -> None:
    touch(str(tmp_path / "no-such"))
    touch("/dev/null", submits=True)
    fault("device-submitted", path=str(tmp_path / "no-such")).request(asked())
    assert list(tmp_path.iterdir()) == []  # tried, and not made
