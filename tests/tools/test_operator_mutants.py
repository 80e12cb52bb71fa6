"""How survivors of the operator mutants are held against docs/mutmut.md. mutmut itself is not run here."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.operator_mutants import COPIED, PAGE, ROOT, Survivor, change_of, gone, looked_at, narrowed, not_listed

LOOP = "forward_serve/decoding/loop.py"
LISTED = Survivor(LOOP, "_Reply._turn", "if a or b:", "if a and b:")
OTHER_CHANGE = Survivor(LOOP, "_Reply._turn", "if a or b:", "if a:")
OTHER_FILE = Survivor("harness/checks/stops.py", "cut", "return 1", "return 2")
TEXT = f"""\
# Survivors

## Looked at

- `{LOOP}`, with `forward_serve/decoding/lookup.py`

## Survivors

| module | mutant | reason |
|---|---|---|
{LISTED.cells} both are true here |
"""


def test_the_modules_looked_at_are_those_under_their_heading_and_no_others() -> None:
    assert looked_at(TEXT) == {LOOP, "forward_serve/decoding/lookup.py"}
    assert looked_at("") == frozenset()


def test_a_survivor_without_a_row_counts_only_in_a_module_that_was_looked_at() -> None:
    assert not_listed([LISTED, OTHER_CHANGE, OTHER_FILE], TEXT) == [OTHER_CHANGE]


def test_a_row_whose_mutant_is_killed_is_gone_where_its_module_was_run() -> None:
    assert gone([LISTED], TEXT, [LOOP]) == []
    (row,) = gone([OTHER_CHANGE], TEXT, [LOOP])
    assert row.startswith(LISTED.cells)
    assert gone([], TEXT, [OTHER_FILE.file]) == []


def test_a_bar_in_a_line_does_not_end_its_cell() -> None:
    one = Survivor(LOOP, "f", "x: int | None = None", "")
    assert one.cells == rf"| `{LOOP}` | `f`: `x: int \| None = None` → nothing |"


def test_a_change_over_three_lines_is_told_in_one() -> None:
    diff = "--- a.py\n+++ a.py\n@@ -1,5 +1,3 @@\n def f():\n-    g(\n-        1, 2\n-    )\n+    g(1)\n     return 0"
    assert change_of(diff) == ("g( 1, 2 )", "g(1)")


@pytest.mark.parametrize(
    ("paths", "mutated", "rooms"),
    [
        ([LOOP], [LOOP], {"forward_serve"}),
        (["harness/checks/"], ["harness/checks/*"], {"harness"}),
        ([LOOP, "harness/oracle"], [LOOP, "harness/oracle/*"], {"forward_serve", "harness"}),
    ],
)
def test_paths_narrow_what_is_mutated_to_them_and_the_tests_to_their_rooms(
    paths: list[str], mutated: list[str], rooms: set[str]
) -> None:
    text = (ROOT / "pyproject.toml").read_text()
    want = tomllib.loads(text)
    tests = want["tool"]["mutmut"]["pytest_add_cli_args_test_selection"]
    want["tool"]["mutmut"]["only_mutate"] = mutated
    want["tool"]["mutmut"]["pytest_add_cli_args_test_selection"] = [test for test in tests if test.split("/")[1] in rooms]
    assert tomllib.loads(narrowed(text, paths)) == want
    assert want["tool"]["mutmut"]["pytest_add_cli_args_test_selection"] != []


def test_a_configuration_without_the_key_is_refused() -> None:
    with pytest.raises(ValueError, match="only_mutate is there 0 times"):
        narrowed("[tool.mutmut]\n", [LOOP])


def test_each_path_that_mutmut_reads_is_there_and_copied() -> None:
    words = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    paths = [*words["source_paths"], *words["also_copy"], *words["pytest_add_cli_args_test_selection"]]
    paths += [pattern.removesuffix("/*") for pattern in words["only_mutate"]]
    assert [path for path in paths if not (ROOT / path).exists() or Path(path).parts[0] not in COPIED] == []


def test_each_row_of_the_page_is_of_a_module_that_was_looked_at_and_gives_a_reason() -> None:
    text = PAGE.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    modules = looked_at(text)
    assert modules != frozenset()
    assert [row for row in rows if row.split("`")[1] not in modules or len(row.split(" | ")) < 3 or row.endswith("| |")] == []
    assert [module for module in modules if not (ROOT / module).is_file()] == []
