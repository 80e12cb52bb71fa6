from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import FileFormatError
from harness.mutation.edits import Edit, apply
from harness.mutation.patch import parse

PATCH = """\
diff --git a/p/m.py b/p/m.py
--- a/p/m.py
+++ b/p/m.py
@@ -1,3 +1,3 @@ def f():
 a
-b
+B
 c
@@ -9 +9,2 @@
-x
+y
+z
--- /dev/null
+++ b/p/new.py
@@ -0,0 +1 @@
+n = 1
"""


def test_each_hunk_is_an_edit_with_its_old_side_as_the_anchor() -> None:
    assert parse(PATCH, "f.patch") == (
        Edit("p/m.py", "a\nb\nc\n", "a\nB\nc\n"),
        Edit("p/m.py", "x\n", "y\nz\n"),
        Edit("p/new.py", "", "n = 1\n"),
    )


def test_removed_lines_that_look_like_a_header_are_read_as_lines() -> None:
    text = "--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n x\n"
    assert parse(text, "f.patch") == (Edit("m.py", "-- old\nx\n", "++ new\nx\n"),)


def test_a_missing_newline_at_the_end_of_one_side_is_kept() -> None:
    text = "--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
    assert parse(text, "f.patch") == (Edit("m.py", "a", "b\n"),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no hunk"),
        ("@@ -1 +1 @@\n-a\n+b\n", r"f\.patch:1: a hunk before"),
        ("--- a/m.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", r"f\.patch:2: .*edits text or adds"),
        ("rename from a\n", "adds a file, nothing else"),
        ("--- a/../m.py\n+++ b/../m.py\n@@ -1 +1 @@\n-a\n+b\n", "no path below the source root"),
        ("--- a/m.py\n+++ b/m.py\n@@ -1,2 +1 @@\n-a\n+b\n", "the last hunk is cut"),
        ("--- a/m.py\n+++ b/m.py\n@@ -1,2 +1 @@\n-a\n?b\n", r"f\.patch:5: .* is no line of a hunk"),
    ],
)
def test_what_is_no_plantable_diff_is_refused_by_place(text: str, told: str) -> None:
    with pytest.raises(FileFormatError, match=told):
        parse(text, "f.patch")


LINES = st.lists(st.sampled_from(["a\n", "b\n", "-c\n", "@@ d\n", "\n"]), max_size=8).map("".join)


@given(LINES, LINES)
@settings(max_examples=60, deadline=None)
def test_a_whole_file_diff_applies_to_what_it_was_made_from(old: str, new: str) -> None:
    old, new = f"first\n{old}", f"first\n{new}"
    diff = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), "a/m.py", "b/m.py", n=99)
    text = "".join(diff)
    if text:
        assert apply(old, parse(text, "f.patch")) == new
