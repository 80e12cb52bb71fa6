"""Faults of counts: the same change in each witness that the fault is for, and in no other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.mutation.relay.counts import CountsFault, read_line, write_line
from harness.mutation.relay.link import changed_metrics
from tests.harness.mutation.relay.bodies import RECORD, asked, fault, llama, openai

LINE = "[spec] id=cmpl-7 path=spec drafter=lookup rounds=2 drafted=7 accepted=3 plain=1 tokens=6 cached=0 fallback=- reason=-"
COUNTERS = {"drafted": "x:drafted_total", "accepted": "x:accepted_total", "busy": "x:busy"}
METRICS = "# TYPE x:drafted_total counter\nx:drafted_total 40\nx:accepted_total 9\nx:busy 0\nother 1\n"
names = st.sampled_from(["cmpl-1", "a", "x_y"])
numbers = st.integers(0, 999)


@given(names, st.tuples(numbers, numbers, numbers, numbers, numbers, numbers), st.none() | numbers)
@settings(max_examples=40, deadline=None)
def test_a_line_that_is_read_and_written_again_is_the_same(name: str, found: Any, fallback: int | None) -> None:
    rounds, drafted, accepted, plain, tokens, cached = found
    line = (
        f"[spec] id={name} path=spec drafter=lookup rounds={rounds} drafted={drafted} accepted={accepted} plain={plain}"
        f" tokens={tokens} cached={cached} fallback={'-' if fallback is None else fallback} reason=-"
    )
    record = read_line(line, "[spec]")
    assert record is not None
    assert write_line(record, "[spec]") == line


def test_a_line_without_the_prefix_carries_no_counts() -> None:
    assert read_line("loading weights", "[spec]") is None
    assert read_line(LINE, "") is None


def counted(one: CountsFault) -> dict[str, Any]:
    """Return the counts of an answer once a fault has had it."""
    changed = one.answer(asked(), 200, openai())
    record = one.speech.record(openai() if changed is None else changed[1])
    assert record is not None
    return record


@pytest.mark.parametrize(
    ("name", "table", "want"),
    [
        ("counts-set", {"values": {"drafted": 4, "accepted": 1}}, {"drafted": 4, "accepted": 1}),
        ("counts-added", {"values": {"accepted": 1}}, {"accepted": 4}),
        ("counts-width-times-rounds", {"width": 15}, {"drafted": 30}),
        ("counts-plain", {}, {"path": "plain", "rounds": 0, "drafted": 0, "accepted": 0, "plain": 6, "per_round": []}),
        ("rounds-shifted", {"part": "drafts"}, {"per_round": [[[14, 15, 16, 17], 2], [[11, 12, 99], 1]]}),
        ("rounds-shifted", {"part": "accepted"}, {"per_round": [[[11, 12, 99], 1], [[14, 15, 16, 17], 2]]}),
    ],
)
def test_line_answer_and_stream_tell_the_same_changed_counts(name: str, table: Any, want: dict[str, Any]) -> None:
    one = fault(name, **table)
    assert isinstance(one, CountsFault)
    record = counted(one)
    assert record == {**RECORD, **want}
    (event,) = one.event(asked(), openai()) or [openai()]
    assert one.speech.record(event) == record
    (line,) = one.line(LINE) or [LINE]
    told = read_line(line, "[spec]")
    assert told is not None
    assert {key: told[key] for key in told if key != "id"} == {key: record[key] for key in record if key != "per_round"}


def test_rounds_that_are_capped_add_up_and_keep_the_number_of_tokens() -> None:
    one = fault("rounds-capped", most=1, witnesses=["answer"])
    assert isinstance(one, CountsFault)
    want = {"drafted": 2, "accepted": 2, "plain": 2, "per_round": [[[11], 1], [[14], 1]]}
    assert counted(one) == {**RECORD, **want}
    assert one.line(LINE) is None
    assert counted(fault("rounds-capped", most=4)) == RECORD  # type: ignore[arg-type]


def test_counts_of_a_plain_reply_keep_the_number_of_its_tokens() -> None:
    record = counted(fault("counts-plain"))  # type: ignore[arg-type]
    before, after = (one["rounds"] + one["plain"] + one["accepted"] for one in (RECORD, record))
    assert before == after


def test_a_fault_of_one_witness_leaves_the_others_alone() -> None:
    in_line = fault("counts-added", values={"accepted": 1}, witnesses=["line"])
    assert in_line.answer(asked(), 200, openai()) is None
    assert in_line.line(LINE) == [LINE.replace("accepted=3", "accepted=4")]
    in_answer = fault("counts-added", values={"accepted": 1}, witnesses=["answer"])
    assert in_answer.answer(asked(), 200, openai()) is not None
    assert in_answer.line(LINE) is None
    assert in_answer.metrics({"accepted": 9}) == {"accepted": 9}


def test_a_fault_for_later_requests_and_for_one_reason_waits_for_them() -> None:
    later = fault("counts-plain", when={"first": 2})
    assert later.line(LINE) is None
    assert later.line("something else") is None
    assert later.line(LINE) is not None
    assert later.answer(asked(1), 200, openai()) is None
    assert later.answer(asked(2), 200, openai()) is not None
    sampled = fault("counts-set", values={"path": "spec", "reason": "-"}, reason="sampled")
    assert sampled.line(LINE) is None
    assert sampled.line(LINE.replace("reason=-", "reason=sampled").replace("path=spec", "path=plain")) == [LINE]


def test_a_fallback_that_is_not_told_is_null_in_the_answer_and_a_dash_in_the_line() -> None:
    one = fault("counts-set", none=["fallback"])
    assert one.line(LINE.replace("fallback=-", "fallback=3")) == [LINE]
    changed = one.answer(asked(), 200, openai(record={**RECORD, "fallback": 3}))
    assert changed is not None
    assert one.speech.record(changed[1]) == RECORD


def test_the_counters_of_the_process_follow_what_the_answers_were_changed_by() -> None:
    one = fault("counts-plain", "llama")
    changed = one.answer(asked(), 200, llama(drafted=(7, 3)))
    assert changed is not None
    assert "draft_n" not in changed[1]["timings"]
    assert changed_metrics(METRICS, COUNTERS, one) == METRICS.replace("total 40", "total 33").replace("total 9", "total 6")


def test_frozen_counters_say_what_was_read_first_but_for_what_comes_and_goes() -> None:
    one = fault("metrics-frozen", "llama")
    assert changed_metrics(METRICS, COUNTERS, one) is None
    later = METRICS.replace("40", "50").replace("busy 0", "busy 1")
    assert changed_metrics(later, COUNTERS, one) == METRICS.replace("busy 0", "busy 1")


def test_a_line_is_written_twice_or_not_at_all_and_other_lines_once() -> None:
    assert fault("line-times", times=2).line(LINE) == [LINE, LINE]
    assert fault("line-times", times=0).line(LINE) == []
    assert fault("line-times", times=0).line("loading") is None
