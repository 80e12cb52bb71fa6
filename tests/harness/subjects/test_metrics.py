"""Counters of a process, as the second witness of one request's counts."""

from __future__ import annotations

import msgspec
import pytest

from harness.records.recording import Counts, Reply
from harness.subjects.counts import CountsError
from harness.subjects.metrics import difference, read_metrics
from harness.subjects.tables import MetricsSource

SOURCE = MetricsSource("/metrics", "drafted_total", "accepted_total", "tokens_total", rounds="rounds_total", busy="busy")
CUT = Reply("r", "abcd", (1, 2, 3, 4), "length", None, 2, 4)
ENDED = msgspec.structs.replace(CUT, finish_reason="stop", stop_reason=185)
TEXT = """# HELP drafted_total Drafts.
# TYPE drafted_total counter
drafted_total 30
accepted_total 1.2e1
tokens_total{model="a"} 55
rounds_total 9

other_seconds 0.25
busy 0
"""


def test_the_counters_that_a_description_names_are_read() -> None:
    want = {"drafted_total": 30, "accepted_total": 12, "tokens_total": 55, "rounds_total": 9, "busy": 0}
    assert read_metrics(TEXT, SOURCE) == want


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("drafted_total 30", "", "drafted_total is there 0 times"),
        ("drafted_total 30", "drafted_total 30\ndrafted_total 31", "drafted_total is there 2 times"),
        ("drafted_total 30", "drafted_total many", "drafted_total 'many' is no number"),
        ("drafted_total 30", "drafted_total 0.5", "drafted_total '0.5' is no count"),
        ("drafted_total 30", "drafted_total -1", "drafted_total '-1' is no count"),
        ("drafted_total 30", "drafted_total NaN", "drafted_total 'NaN' is no count"),
    ],
)
def test_a_counter_that_is_missing_doubled_or_no_number_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(CountsError, match=message):
        read_metrics(TEXT.replace(old, new, 1), SOURCE)


def test_what_a_request_added_is_its_counts_without_an_end_token() -> None:
    before = read_metrics(TEXT, SOURCE)
    after = {**before, "drafted_total": 38, "accepted_total": 15, "tokens_total": 60, "rounds_total": 11}
    assert difference(before, after, SOURCE, ENDED) == Counts("spec", None, 2, 8, 3, None, 4, None, None, None)
    assert difference(before, before, SOURCE, CUT) == Counts("plain", None, 0, 0, 0, None, 0, None, None, None)


def test_counters_that_count_no_tokens_have_the_replys_own() -> None:
    source = msgspec.structs.replace(SOURCE, tokens="")
    reading = read_metrics(TEXT, source)
    assert difference(reading, reading, source, CUT).tokens == 4
    with pytest.raises(CountsError, match="they count no tokens, and neither does the answer"):
        difference(reading, reading, source, msgspec.structs.replace(CUT, completion_tokens=None))


def test_counters_of_drafts_may_be_missing_where_an_arm_drafts_nothing() -> None:
    text = "tokens_total 7\nbusy 0\n"
    lacking = ("drafted_total", "accepted_total", "rounds_total")
    assert read_metrics(text, SOURCE, lacking) == dict.fromkeys(lacking, 0) | {"tokens_total": 7, "busy": 0}
    assert read_metrics(TEXT, SOURCE, lacking) == read_metrics(TEXT, SOURCE)
    with pytest.raises(CountsError, match="tokens_total is there 0 times"):
        read_metrics("busy 0", SOURCE, lacking)


def test_a_counter_that_went_back_is_no_difference() -> None:
    before = read_metrics(TEXT, SOURCE)
    with pytest.raises(CountsError, match="tokens_total went back by 1"):
        difference(before, {**before, "tokens_total": 54}, SOURCE, CUT)
