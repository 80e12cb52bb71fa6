from __future__ import annotations

import ast
import builtins
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.mutation.edits import Edit, apply
from harness.mutation.marker import MODULE, Marked, mark, not_reached, runtime, stripped

SOURCE = textwrap.dedent(
    '''\
    """A module."""
    from __future__ import annotations

    LIMIT = 3


    def grade(value):
        """Grade a value."""
        if value < 0: return "below"
        elif value == 0:
            return "zero"
        try:
            share = 10 // (value - 5)
        except ZeroDivisionError:
            return "hole"
        total = 0
        for step in range(LIMIT):
            if step == 1:
                continue
            total += step; total += share
        match total:
            case 2:
                return "two"
            case _:
                pass
        return f"größe {total}"


    class Box:
        @property
        def size(self):
            return LIMIT
    '''
)


def marked(find: str, replace: str, source: str = SOURCE) -> Marked:
    return mark({"m.py": source}, {"m.py": [Edit("m.py", find, replace)]})


def run(text: str, value: int) -> tuple[Any, set[int]]:
    """Run a text and call `grade`; return what came of it, and the marks that were hit."""
    hits: set[int] = set()

    def find_module(name: str, *rest: Any) -> Any:
        return None if name == MODULE else __import__(name, *rest)

    scope: dict[str, Any] = {"__hit__": hits.add, "__builtins__": {**vars(builtins), "__import__": find_module}}
    try:
        exec(compile(text, "<text>", "exec", dont_inherit=True), scope)  # noqa: S102  # the texts are this file's own
        result: Any = scope["grade"](value)
    except Exception as error:
        result = type(error).__name__, str(error)
    return result, hits


@pytest.mark.parametrize(
    ("find", "replace", "value", "runs"),
    [
        ('return "zero"', 'return "nil"', 0, True),
        ('return "zero"', 'return "nil"', 1, False),
        ("elif value == 0", "elif value == 1", -1, True),  # climbs to the head of the if
        ('return "hole"', 'return "gap"', 5, True),
        ('return "hole"', 'return "gap"', 4, False),
        ("except ZeroDivisionError", "except ValueError", 1, True),  # climbs to the try
        ('return "two"', 'return "2"', 1, False),
        ("total += share", "total -= share", 1, True),
        ("total += share", "total -= share", 5, False),
        ("            continue\n", "            pass\n", -1, False),
        ('if value < 0: return "below"', 'if value < 0: return "under"', 1, False),
        ('if value < 0: return "below"', 'if value < 1: return "below"', 7, True),
        ("    return f", "    total += 1\n    return f", -1, False),
        ("    return LIMIT", "    return 4", 1, False),
        ("größe", "grösse", 1, True),
        ("    total = 0\n", "    del value\n    total = 0\n", 5, False),
    ],
)
def test_the_mark_of_an_edit_is_set_exactly_when_its_statement_runs(find: str, replace: str, value: int, runs: bool) -> None:
    planted = marked(find, replace)
    assert planted.refusal == ""
    _, hits = run(planted.texts["m.py"], value)
    assert (1 in hits) is runs
    assert 0 in hits


@pytest.mark.parametrize(
    ("find", "replace", "word"),
    [
        ('"""Grade a value."""', '"""Grade."""', "no mark"),
        ('"""A module."""', '"""Module."""', "no mark"),
        ("from __future__ import annotations", "from __future__ import division", "changes the scope"),
        ("total = 0", "total = yielded = 0", "scope of grade"),
        ("total = 0", "total = (yield)", "scope of grade"),
        ("range(LIMIT)", "range((LIMIT := 2))", "scope of grade"),
    ],
)
def test_no_claim_is_made_for_a_docstring_a_future_import_or_a_changed_scope(find: str, replace: str, word: str) -> None:
    planted = marked(find, replace)
    assert word in planted.refusal
    assert planted.texts["m.py"] == SOURCE.replace(find, replace)
    assert not_reached(planted, bytes(8)) == ""


def test_a_line_moved_into_a_block_is_not_said_to_be_unreached_because_the_block_never_ran() -> None:
    source = "def grade(value):\n    if value > 100:\n        value = 0\n    value += 1\n    return value\n"
    planted = marked("    value += 1", "        value += 1", source)
    result, hits = run(planted.texts["m.py"], 1)
    assert result == 1  # the original says 2
    assert 1 in hits or planted.refusal


def test_a_new_statement_behind_the_marked_block_moves_the_mark_outwards() -> None:
    source = "def grade(value):\n    if value > 100:\n        value = 0\n    return value\n"
    planted = marked("value = 0\n", "value = 1\n    value += 7\n", source)
    result, hits = run(planted.texts["m.py"], 1)
    assert result == 8
    assert 1 in hits or planted.refusal


def test_a_new_file_allows_no_claim() -> None:
    planted = mark({"new.py": None}, {"new.py": [Edit("new.py", "", "x = 1\n")]})
    assert planted.refusal == "new.py is new: what it adds may act from anywhere"


def test_each_edit_of_a_file_has_a_mark_of_its_own() -> None:
    edits = [Edit("m.py", 'return "zero"', 'return "nil"'), Edit("m.py", 'return "hole"', 'return "gap"')]
    planted = mark({"m.py": SOURCE}, {"m.py": edits})
    assert planted.planted == {"m.py": (1, 2)}
    assert run(planted.texts["m.py"], 0) == ("nil", {0, 1})
    assert run(planted.texts["m.py"], 5) == ("gap", {0, 2})


def test_not_reached_tells_a_module_that_was_never_imported_from_a_statement_that_never_ran() -> None:
    planted = marked('return "zero"', 'return "nil"')
    assert not_reached(planted, b"\0\0") == "m.py was never imported"
    assert not_reached(planted, b"\1\0") == "the planted statement never ran: m.py"
    assert not_reached(planted, b"\1\1") == ""


LINES = SOURCE.splitlines(keepends=True)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_an_edit_whose_mark_is_unset_changed_nothing_that_ran(data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(LINES) - 1))
    last = data.draw(st.integers(first, min(first + 2, len(LINES) - 1)))
    block = LINES[first : last + 1]
    way = data.draw(st.sampled_from(["delete", "indent", "dedent", "pass", "swap", "twice", "token"]))
    replace = {
        "delete": "",
        "indent": "".join("    " + line for line in block),
        "dedent": "".join(line.removeprefix("    ") for line in block),
        "pass": block[0][: len(block[0]) - len(block[0].lstrip())] + "pass\n",
        "swap": "".join(reversed(block)),
        "twice": "".join(block) * 2,
        "token": "".join(block).replace("0", "2").replace("value", "LIMIT"),
    }[way]
    source = "".join(LINES)
    text = "".join(LINES[:first]) + replace + "".join(LINES[last + 1 :])
    try:
        compile(text, "<mutant>", "exec", dont_inherit=True)
    except SyntaxError:
        return
    # the whole file is the anchor: the edit's own beginning and end are found by comparing characters
    planted = mark({"m.py": source}, {"m.py": [Edit("m.py", source, text)]})
    if planted.refusal:
        assert planted.texts["m.py"] == text
        return
    assert ast.dump(stripped(ast.parse(planted.texts["m.py"]))) == ast.dump(ast.parse(text))
    for value in (-1, 0, 1, 4, 5, 6, 9):
        got, hits = run(planted.texts["m.py"], value)
        assert got == run(text, value)[0]
        assert 1 in hits or got == run(source, value)[0]


@given(begin=st.integers(0, len(SOURCE) - 1), length=st.integers(0, 12), put=st.sampled_from(["", "1", " ", "0", "not ", "-"]))
@example(begin=SOURCE.index("== 0"), length=2, put="!=")
@settings(max_examples=150, deadline=None)
def test_a_random_edit_of_characters_keeps_the_mutants_tree_and_the_soundness_of_its_mark(
    begin: int, length: int, put: str
) -> None:
    text = SOURCE[:begin] + put + SOURCE[begin + length :]
    try:
        compile(text, "<mutant>", "exec", dont_inherit=True)
    except (SyntaxError, SyntaxWarning):
        return
    planted = mark({"m.py": SOURCE}, {"m.py": [Edit("m.py", SOURCE, text)]})
    if planted.refusal:
        return
    assert ast.dump(stripped(ast.parse(planted.texts["m.py"]))) == ast.dump(ast.parse(text))
    for value in (-1, 0, 1, 5, 6):
        got, hits = run(planted.texts["m.py"], value)
        assert 1 in hits or got == run(SOURCE, value)[0]


def test_a_hit_survives_the_sigkill_of_the_process_that_made_it(tmp_path: Path) -> None:
    source = "import os\nimport signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    planted = mark({"m.py": source}, {"m.py": [Edit("m.py", "os.kill(os", "print(); os.kill(os")]})
    marks = tmp_path / "marks"
    marks.write_bytes(bytes(planted.num_marks))
    (tmp_path / f"{MODULE}.py").write_text(runtime(marks))
    (tmp_path / "m.py").write_text(planted.texts["m.py"])
    done = subprocess.run([sys.executable, "-c", "import m"], cwd=tmp_path, env=dict(os.environ), check=False, timeout=30)
    assert done.returncode == -signal.SIGKILL
    assert marks.read_bytes() == b"\1\1"


def test_the_marked_text_of_an_applied_edit_is_the_mutant_where_the_marks_are_taken_off() -> None:
    edit = Edit("m.py", "total += share", "total -= share")
    planted = mark({"m.py": SOURCE}, {"m.py": [edit]})
    assert ast.dump(stripped(ast.parse(planted.texts["m.py"]))) == ast.dump(ast.parse(apply(SOURCE, [edit])))
