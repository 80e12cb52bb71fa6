from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.mutation.edits import Change, Edit, apply, changes, nearest, occurrences, overlaps, problem, unified

SOURCE = "a = 1\nb = 2\nc = a + b\n"


def test_an_anchor_that_occurs_once_is_replaced() -> None:
    assert apply(SOURCE, [Edit("m.py", "b = 2", "b = 3")]) == "a = 1\nb = 3\nc = a + b\n"


def test_a_missing_anchor_is_told_with_the_nearest_lines() -> None:
    told = problem(SOURCE, Edit("m.py", "b = 22", "b = 3"))
    assert told == "m.py: the anchor is nowhere; nearest: line 2 (91%): 'b = 2'; line 1 (55%): 'a = 1'"


def test_a_missing_anchor_of_two_lines_is_compared_with_pairs_of_lines() -> None:
    (best, *_) = nearest(SOURCE, "b = 2\nc = a - b\n")
    assert (best.line, best.text) == (2, "b = 2\nc = a + b")


def test_an_anchor_that_occurs_twice_is_told_with_both_lines() -> None:
    assert problem("x\ny\nx\n", Edit("m.py", "x", "z")) == (
        "m.py: the anchor occurs 2 times (lines 1, 3); lengthen it until it is one place"
    )


def test_overlapping_occurrences_of_an_anchor_count_as_two() -> None:
    assert occurrences("aaa", "aa") == (0, 1)


@pytest.mark.parametrize(
    ("source", "edit", "told"),
    [
        (None, Edit("m.py", "x", "y"), "m.py: no such file; the anchor has nowhere to be"),
        (SOURCE, Edit("m.py", "", "y"), "m.py: exists already; an edit without `find` makes a new file"),
        (None, Edit("m.py", "", "y"), ""),
        (SOURCE, Edit("m.py", "nothing like it at all", "y"), "m.py: the anchor is nowhere; nearest: nothing like it"),
    ],
)
def test_problems_of_files_that_are_or_are_not_there(source: str | None, edit: Edit, told: str) -> None:
    assert problem(source, edit) == told


def test_two_edits_are_found_in_the_original_whatever_the_other_puts_in() -> None:
    edits = [Edit("m.py", "c = a + b", "c = 0"), Edit("m.py", "a = 1", "a = 1; c = a + b")]
    assert apply(SOURCE, edits) == "a = 1; c = a + b\nb = 2\nc = 0\n"


def test_edits_that_claim_the_same_characters_overlap() -> None:
    edits = [Edit("m.py", "a = 1\nb", "x"), Edit("m.py", "b = 2", "y")]
    assert overlaps(SOURCE, edits)
    with pytest.raises(ValueError, match="overlap"):
        apply(SOURCE, edits)


def test_a_change_leaves_out_what_anchor_and_replacement_share() -> None:
    assert changes(SOURCE, [Edit("m.py", "b = 2", "b = 345")]) == (Change(begin=10, end=11, mutant_begin=10, mutant_end=13),)


def test_the_change_of_a_later_edit_is_moved_by_an_earlier_one() -> None:
    first, second = changes(SOURCE, [Edit("m.py", "2", "222"), Edit("m.py", "+", "-")])
    assert (first.mutant_begin, second.begin, second.mutant_begin) == (11, 18, 20)


def test_a_new_file_holds_its_replacement() -> None:
    assert apply(None, [Edit("new.py", "", "x = 1\n")]) == "x = 1\n"


def test_the_unified_diff_says_where_a_last_newline_is_missing() -> None:
    assert unified("m.py", "a", "b") == (
        "--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
    )


@given(st.text("ab\n", max_size=30), st.data())
@settings(max_examples=60, deadline=None)
def test_a_change_says_exactly_what_differs(source: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(begin, len(source)))
    edit = Edit("m.py", source[begin:end], data.draw(st.text("abc", max_size=5)))
    if problem(source, edit):
        return
    mutant = apply(source, [edit])
    (change,) = changes(source, [edit])
    assert source[: change.begin] == mutant[: change.mutant_begin]
    assert source[change.end :] == mutant[change.mutant_end :]
