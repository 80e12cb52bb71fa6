"""Counts that stand anywhere in an answer, by the keys that lead to them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.records.recording import Counts, Reply
from harness.subjects.answer_counts import read
from harness.subjects.counts import CountsError
from harness.subjects.tables import AnswerCounts

REPLY = Reply("r", "abcde", None, "length", None, 2, 5, cached_tokens=1)
FIELDS = AnswerCounts("metrics.spec.drafted", "metrics.spec.accepted", rounds="metrics.rounds")
BODY = {"metrics": {"spec": {"drafted": 8, "accepted": 3}, "rounds": 2}}


def test_counts_are_found_by_their_keys_and_tokens_are_the_replys() -> None:
    assert read(BODY, FIELDS, REPLY, may_lack=False) == Counts("spec", None, 2, 8, 3, None, 5, 1, None, None)
    without_rounds = msgspec.structs.replace(FIELDS, rounds="")
    counts = read(BODY, without_rounds, REPLY, may_lack=False)
    assert counts is not None
    assert counts.rounds is None


@pytest.mark.parametrize("body", [{}, {"metrics": None}, {"metrics": {"spec": []}}, [], {"metrics": {"spec": {"drafted": None}}}])
def test_what_is_all_missing_says_that_nothing_was_drafted_or_says_nothing(body: Any) -> None:
    assert read(body, FIELDS, REPLY, may_lack=True) == Counts("plain", None, 0, 0, 0, None, 5, 1, None, None)
    assert read(body, FIELDS, REPLY, may_lack=False) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"metrics": {"spec": {"drafted": 8}, "rounds": 2}}, "metrics.spec.accepted is missing, and others are there"),
        ({"metrics": {"spec": {"drafted": 8, "accepted": 3}}}, "metrics.rounds is missing"),
        ({"metrics": {"spec": {"drafted": -1, "accepted": 3}, "rounds": 2}}, "metrics.spec.drafted=-1 is no count"),
        ({"metrics": {"spec": {"drafted": 8, "accepted": True}, "rounds": 2}}, "metrics.spec.accepted=True is no count"),
    ],
)
def test_what_is_missing_in_part_or_no_count_is_named(body: Any, message: str) -> None:
    with pytest.raises(CountsError, match=message):
        read(body, FIELDS, REPLY, may_lack=True)


def test_counts_of_a_reply_that_counts_no_tokens_are_refused() -> None:
    with pytest.raises(CountsError, match=r"usage\.completion_tokens is missing"):
        read(BODY, FIELDS, msgspec.structs.replace(REPLY, completion_tokens=None), may_lack=True)
