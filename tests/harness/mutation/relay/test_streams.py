"""Faults of streams, event by event; and of what reaches the engine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.mutation.relay.fault import Fault
from harness.mutation.relay.requests import forced
from harness.mutation.relay.streams import halved
from tests.harness.mutation.relay.bodies import asked, fault


def event(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"id": "cmpl-7", "choices": [{"text": text, "token_ids": [ord(one) for one in text], "finish_reason": finish}]}


EVENTS = [event("a"), event("bc"), event(""), event("d"), event("", "length"), {"choices": [], "usage": {}}]


def streamed(one: Fault, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events that come out for the events of one stream."""
    request = asked()
    out: list[dict[str, Any]] = []
    for each in events:
        changed = one.event(request, each)
        out += [each] if changed is None else changed
    return out + one.close(request)


def texts(events: list[dict[str, Any]]) -> list[str]:
    return [choice["text"] for one in events for choice in one["choices"]]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("stream-tail-lost", ["a", "bc", "", "", ""]),
        ("stream-chunk-doubled", ["a", "a", "bc", "", "d", ""]),
        ("stream-gathered", ["abcd"]),
        ("stream-finish-doubled", ["a", "bc", "", "d", "", ""]),
        ("stream-finish-lost", ["a", "bc", "", "d"]),
        ("stream-shown-behind-finish", ["a", "bc", "", "d", "", "a"]),
    ],
)
def test_each_fault_shows_other_texts_and_keeps_the_closing_event(name: str, want: list[str]) -> None:
    out = streamed(fault(name), EVENTS)
    assert texts(out) == want
    assert out[-1] == EVENTS[-1]


@pytest.mark.parametrize("name", ["stream-tail-lost", "stream-gathered"])
def test_no_id_is_lost_with_a_text(name: str) -> None:
    ids = [token for one in streamed(fault(name), EVENTS) for choice in one["choices"] for token in choice["token_ids"]]
    assert ids == [ord(one) for one in "abcd"]


def test_the_text_of_a_finish_that_shows_some_is_the_tail() -> None:
    assert texts(streamed(fault("stream-tail-lost"), [event("a"), event("b", "length")])) == ["a", ""]


def test_a_stream_that_breaks_off_shows_what_was_held_back() -> None:
    assert texts(streamed(fault("stream-tail-lost"), [event("a"), event("b")])) == ["a", "b"]


def test_two_streams_at_once_are_held_apart() -> None:
    one = fault("stream-gathered")
    assert one.event(asked(1), event("a")) == []
    assert one.event(asked(2), event("x")) == []
    assert texts(one.event(asked(1), event("b", "length")) or []) == ["ab"]
    one.left(asked(2), "x")
    assert one.close(asked(2)) == []


@given(st.text(max_size=8))
@settings(max_examples=40, deadline=None)
def test_halved_characters_stand_for_their_bytes(text: str) -> None:
    assert len(halved(text)) == sum(1 if one.isascii() else len(one.encode("utf-8", "replace")) for one in text)
    assert halved(halved("a")) == "a"


def test_half_characters_leave_ascii_alone() -> None:
    one = fault("stream-half-characters")
    assert one.event(asked(), event("abc")) is None
    assert texts(one.event(asked(), event("a\u00e4b")) or []) == ["a\ufffd\ufffdb"]


def test_fields_are_dropped_forced_or_moved_and_else_the_request_is_left_alone() -> None:
    assert fault("fields-dropped", fields=["stop"]).request(asked(stop=["x"])) == dict(asked().body)
    assert fault("fields-dropped", fields=["stop"]).request(asked()) is None
    assert fault("fields-forced", values={"ignore_eos": True}).request(asked()) == {**asked().body, "ignore_eos": True}
    assert forced({"a": 1}, {"a": 1}) is None
    moved = fault("seed-moved", when={"first": 2})
    assert moved.request(asked(1, seed=7)) is None
    assert moved.request(asked(3, seed=7)) == {**asked().body, "seed": 10}
    assert moved.request(asked(3)) is None


def test_a_fault_for_sampled_requests_leaves_greedy_ones_alone() -> None:
    one = fault("fields-forced", values={"temperature": 0.0}, when={"samples": True})
    assert one.request(asked(temperature=0)) is None
    changed = one.request(asked(temperature=0.8))
    assert changed is not None
    assert changed["temperature"] == 0.0


def test_a_request_that_is_kept_is_the_only_one_whose_cancel_is_not_passed_on() -> None:
    assert not fault("request-kept").passes_cancel
    assert fault("nothing").passes_cancel
