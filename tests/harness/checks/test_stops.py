"""What a stop leaves of a reply, against a definition by brute force."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checks.stops import stopped, stops_of, text_before
from harness.records.plan import Request
from harness.records.recording import Reply


def whole(text: str, finish_reason: str = "length", stop_reason: int | None = None) -> Reply:
    """A reply of one token per character that nothing cut."""
    ids = tuple(ord(character) - 33 for character in text)
    return Reply("x", text, ids, finish_reason, stop_reason, 3, len(ids))


def cut(text: str, stops: list[str], budget: int) -> tuple[str, int, str | None, object]:
    """Text, tokens, finish and stop reason of a stopped reply."""
    got = stopped(whole(text), stops, budget)
    assert got is not None
    assert got.ids == whole(text).ids[: got.completion_tokens]  # type: ignore[index]
    return got.text, got.completion_tokens or 0, got.finish_reason, got.stop_reason


def test_a_stop_cuts_the_text_before_it_and_the_ids_behind_its_last_token() -> None:
    assert cut("abcdefgh", ["de"], 8) == ("abc", 5, "stop", "de")


def test_a_stop_completed_by_the_last_token_of_the_budget_wins() -> None:
    assert cut("abcdefgh", ["de"], 5) == ("abc", 5, "stop", "de")


def test_a_budget_one_token_short_of_the_stop_shows_its_beginning() -> None:
    assert cut("abcdefgh", ["de"], 4) == ("abcd", 4, "length", None)


def test_of_two_stops_completed_by_one_token_the_earlier_start_cuts_whatever_the_order() -> None:
    assert cut("abcdefgh", ["e", "cde"], 8) == cut("abcdefgh", ["cde", "e"], 8) == ("ab", 5, "stop", "cde")


def test_of_two_stops_the_one_complete_first_cuts() -> None:
    assert cut("abcdefgh", ["bcdef", "d"], 8) == ("abc", 4, "stop", "d")


def test_a_reply_that_ends_by_itself_stays_as_it_is() -> None:
    ended = whole("abc", "stop", 77)
    assert stopped(ended, ["zz"], 8) == ended


def test_a_reply_that_would_end_by_itself_behind_the_last_token_of_its_budget_ends_by_the_budget() -> None:
    got = stopped(whole("abc", "stop", 77), ["zz"], 3)
    assert got == whole("abc", "length", None)


def test_a_reply_of_several_characters_a_token_is_not_cut_by_this_rule() -> None:
    assert stopped(Reply("x", "abcd", (1, 2), "length", None, 3, 2), ["c"], 2) is None


def test_a_subject_without_ids_is_cut_by_its_text() -> None:
    got = stopped(Reply("x", "abcdef", None, "length", None, 3, 6), ["cd"], 6)
    assert got == Reply("x", "ab", None, "stop", "cd", 3, 4)


def test_a_text_is_cut_at_the_earliest_start() -> None:
    assert text_before("abcabc", ["ca", "bc"]) == "a"
    assert text_before("abc", ["x"]) == "abc"


def test_stops_are_read_as_string_list_or_nothing() -> None:
    bodies: list[dict[str, Any] | None] = [{"stop": "ab"}, {"stop": ["a", "b"]}, {"stop": None}, {}, None]
    assert [stops_of(Request("x", (), body)) for body in bodies] == [("ab",), ("a", "b"), (), (), ()]


@given(
    st.text("ab", min_size=1, max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(1, 12),
)
@settings(max_examples=200, deadline=None)
def test_it_equals_the_definition(text: str, stops: list[str], budget: int) -> None:
    budget = min(budget, len(text))
    ends = [(start + len(stop), start) for stop in stops for start in range(len(text)) if text.startswith(stop, start)]
    ends = [(end, start) for end, start in ends if end <= budget]
    if not ends:
        assert cut(text, stops, budget) == (text[:budget], budget, "length", None)
        return
    end, start = min(ends)
    assert cut(text, stops, budget)[:3] == (text[:start], end, "stop")
    assert text[start:end] == cut(text, stops, budget)[3]
