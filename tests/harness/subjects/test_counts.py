"""The `[spec]` line and `usage.spec`: read as they stand, or not at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.records.recording import Counts, Round
from harness.subjects.counts import LINE_KEYS, CountsError, find_lines, parse_line, parse_usage

LINE = "[spec] id=cmpl-7 path=spec drafter=lookup rounds=5 drafted=20 accepted=6 plain=3 tokens=14 cached=0 fallback=- reason=-"
COUNTS = Counts("spec", "lookup", 5, 20, 6, 3, 14, 0, None, "-")
USAGE = {
    **{"path": "spec", "drafter": "lookup", "rounds": 2, "drafted": 4, "accepted": 1, "plain": 0, "tokens": 3},
    **{"cached": 0, "fallback": None, "reason": "-", "per_round": [[[1, 2], 1], [[], 0]]},
}

numbers = st.integers(min_value=0, max_value=10**17)
words = st.text(alphabet="abcdefghijklmnopqrstuvwxyz-0123456789", min_size=1, max_size=12)


def test_the_documented_line_is_read_in_full():
    assert parse_line(LINE, "[spec]") == ("cmpl-7", COUNTS)


def test_a_thrown_fallback_is_the_number_of_records():
    assert parse_line(LINE.replace("fallback=-", "fallback=3"), "[spec]")[1].fallback == 3


@settings(deadline=None, max_examples=50)
@given(st.tuples(*[numbers] * 6), st.none() | numbers, words, words, st.sampled_from(["spec", "plain"]))
def test_every_line_that_can_be_written_comes_back(values, fallback, drafter, reason, path):
    counts = Counts(path, drafter, *values, fallback, reason)
    shown = "-" if fallback is None else fallback
    texts = ("cmpl-1", path, drafter, *values, shown, reason)
    line = "[spec] " + " ".join(f"{key}={text}" for key, text in zip(LINE_KEYS, texts, strict=True))
    assert parse_line(line, "[spec]") == ("cmpl-1", counts)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[spec] ", "[spec]  ", "keys  id path"),
        ("[spec]", "[ready]", "want '[spec]'"),
        ("rounds=5 drafted=20", "drafted=20 rounds=5", "keys id path drafter drafted rounds"),
        (" reason=-", "", "want id path drafter rounds drafted accepted plain tokens cached fallback reason"),
        (" reason=-", " reason=- reason=-", "reason reason"),
        (" reason=-", " reason=- extra=1", "extra"),
        ("rounds=5", "rounds=-5", "rounds='-5' is no count"),
        ("rounds=5", "rounds=5.0", "rounds='5.0' is no count"),
        ("rounds=5", "rounds=05", "rounds='05' is no count"),
        ("rounds=5", "rounds=", "rounds='' is not one word"),
        ("rounds=5", "rounds=\u0665", "rounds='\u0665' is no count"),
        ("fallback=-", "fallback=none", "fallback='none' is no count"),
        ("path=spec", "path=both", "path='both'; want one of spec, plain"),
        ("reason=-", "reason=a=b", "'a=b' is not one word"),
        ("reason=-", "reason=", "reason='' is not one word"),
        ("reason=-", "reason=-\r", "is not one word"),
    ],
)
def test_a_line_that_differs_anywhere_is_refused_with_the_place(old, new, why):
    with pytest.raises(CountsError) as raised:
        parse_line(LINE.replace(old, new), "[spec]")
    assert why in str(raised.value)


def test_lines_are_found_by_their_whole_id():
    lines = [LINE, LINE.replace("cmpl-7", "cmpl-77"), "noise id=cmpl-7", "[spec]id=cmpl-7"]
    assert find_lines(lines, "[spec]", "cmpl-7") == [LINE]


def test_usage_carries_the_same_counts_and_every_round():
    assert parse_usage(USAGE, "per_round") == (
        Counts("spec", "lookup", 2, 4, 1, 0, 3, 0, None, "-"),
        (Round((1, 2), 1), Round((), 0)),
    )


def test_usage_without_declared_rounds_has_none():
    plain = {key: value for key, value in USAGE.items() if key != "per_round"}
    assert parse_usage(plain, "")[1] is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rounds": True}, "rounds=True is no count"),
        ({"rounds": 2.0}, "rounds=2.0 is no count"),
        ({"rounds": -1}, "rounds=-1 is no count"),
        ({"rounds": None}, "rounds=None is no count"),
        ({"fallback": "-"}, "fallback='-' is no count"),
        ({"drafter": None}, "drafter=None is not one word"),
        ({"path": "both"}, "path='both'"),
        ({"extra": 1}, "['extra'] are missing or unknown"),
        ({"per_round": {}}, "rounds {} are no list"),
        ({"per_round": [[1, 2]]}, "round 0 is [1, 2]; want [[drafted ids], accepted]"),
        ({"per_round": [[[1], 0], [["1"], 0]]}, "round 1 is"),
        ({"per_round": [[[1], True]]}, "round 0 is"),
    ],
)
def test_usage_that_differs_anywhere_is_refused_with_the_place(changes, why):
    with pytest.raises(CountsError) as raised:
        parse_usage(USAGE | changes, "per_round")
    assert why in str(raised.value)


@pytest.mark.parametrize("record", [[], "spec", 1, {}])
def test_usage_that_is_no_object_or_empty_is_refused(record):
    with pytest.raises(CountsError):
        parse_usage(record, "per_round")
