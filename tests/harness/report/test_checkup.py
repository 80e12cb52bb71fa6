"""The table of a checkup, and the command that prints it."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from harness import __main__ as command
from harness.records.checkup import Checkup, Item, State
from harness.report.checkup import checkup_table, closing_line

FOUND = Checkup(
    "my-engine",
    (
        Item("the program strace", State.THERE, "/usr/bin/strace"),
        Item("pid and mount namespaces", State.LOST, "no (said)", "allow unshare"),
        Item("the program [my] engine", State.MISSING, "not found", "install it"),
    ),
    "my-family",
)


def printed(checkup: Checkup) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(checkup_table(checkup))
    return out.getvalue()


def test_each_item_has_a_line_and_what_is_not_there_a_way_to_get_it() -> None:
    text = printed(FOUND)
    for line in ("there", "/usr/bin/strace", "lost", "-> allow unshare", "missing", "the program [my] engine", "-> install it"):
        assert line in text
    assert "-> " not in printed(Checkup("", FOUND.items[:1]))


def test_the_closing_line_counts_what_is_there_lost_and_missing() -> None:
    assert closing_line(FOUND) == "subject my-engine, a build of my-family: 1 of 3 there, 1 done without, 1 missing"
    assert closing_line(Checkup("", FOUND.items[:1])) == "the gate: 1 of 1 there, 0 missing"


@pytest.mark.parametrize(("items", "code"), [(FOUND.items, 3), (FOUND.items[:2], 0)])
def test_the_command_ends_with_3_where_something_is_missing(items: tuple[Item, ...], code: int, monkeypatch, capsys) -> None:
    monkeypatch.setattr("harness.subjects.doctor.checkup", lambda _description, _cache: Checkup("", items))
    for words, holds in ((["doctor"], "the program strace"), (["doctor", "--json"], '"what":"the program strace"')):
        monkeypatch.setattr("sys.argv", ["draftproof", *words])
        with pytest.raises(SystemExit) as ended:
            command.main()
        assert ended.value.code == code
        assert holds in capsys.readouterr().out


def test_the_command_reads_the_description_that_it_is_given(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["draftproof", "doctor", "--subject", "no-such"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 1
    assert "no-such: no such subject" in capsys.readouterr().err


def test_a_checkup_travels_as_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(FOUND), type=Checkup) == FOUND
