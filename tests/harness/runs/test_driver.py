"""In which order, and with whom, the requests of a start are sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.records.budget import Cause
from harness.records.plan import Request, Start
from harness.records.recording import Answer, Trace
from harness.runs.driver import Setting, record_start
from harness.subjects.subject import Ended

ENDED = Ended(exit_status=None, cause=Cause.ENDED, log=(), trace=Trace(traced=False), cpu_seconds=0.0, peak_rss_mib=0.0)


class Subject:
    """A subject that notes what it is asked together."""

    ready_line = "[ready] port=1"

    def __init__(self) -> None:
        self.turns: list[list[str]] = []

    def ask(self, request: Request) -> Answer:
        return self.ask_all([request])[0]

    def ask_all(self, requests: Sequence[Request]) -> tuple[Answer, ...]:
        self.turns.append([request.id for request in requests])
        return tuple(Answer(request.id, 200) for request in requests)

    def end(self) -> Ended:
        return ENDED


class Place:
    """A launcher of that subject, and a locator."""

    def __init__(self) -> None:
        self.subject = Subject()

    def start(self, *_arguments: object, **_budgets: object) -> Any:
        return self.subject

    def refused(self, *_arguments: object) -> Ended:
        return ENDED

    def close(self) -> None:
        return

    def model(self, name: str) -> Path:
        return Path(name)

    def pack(self, name: str) -> Path:
        return Path(name)


def turns_of(*groups: str) -> tuple[list[list[str]], list[str]]:
    """Return what is asked together of requests r0, r1, ... in these groups, and whose answers come in which order."""
    place = Place()
    requests = tuple(Request(id=f"r{index}", checks=("x",), group=group) for index, group in enumerate(groups))
    recording = record_start(Start("s", "plain", "tiny", requests), Setting("fake", place), place)
    return place.subject.turns, [answer.request_id for answer in recording.answers]


def test_requests_without_a_group_are_sent_one_after_another() -> None:
    assert turns_of("", "", "") == ([["r0"], ["r1"], ["r2"]], ["r0", "r1", "r2"])


def test_requests_of_one_group_that_follow_each_other_are_sent_at_once_and_answered_in_the_plans_order() -> None:
    assert turns_of("", "a", "a", "a", "") == ([["r0"], ["r1", "r2", "r3"], ["r4"]], [f"r{index}" for index in range(5)])


def test_two_groups_are_two_turns_and_so_is_one_that_is_interrupted() -> None:
    assert turns_of("a", "a", "b", "b", "", "b") == (
        [["r0", "r1"], ["r2", "r3"], ["r4"], ["r5"]],
        [f"r{index}" for index in range(6)],
    )
