from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import FileFormatError, UsageError
from harness.mutation.journal import Journal
from harness.records.outcome import Outcome
from tests.harness.mutation.test_matrix import result

SETTINGS = {"subject": "toy", "source": "abc"}


def written(path: Path) -> bytes:
    with Journal.begin(path, SETTINGS) as journal:
        for name in ("one", "two", "three"):
            journal.append(result(name=name, reason='a "quote"\nand a line'))
    return path.read_bytes()


def test_a_resumed_journal_knows_what_is_done_and_appends(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written(path)
    with Journal.resume(path, SETTINGS) as journal:
        assert list(journal.done) == ["one", "two", "three"]
        journal.append(result(name="four"))
    with Journal.resume(path, SETTINGS) as journal:
        assert list(journal.done) == ["one", "two", "three", "four"]


def test_a_journal_that_was_cut_at_any_byte_continues_with_its_whole_lines(tmp_path: Path) -> None:
    content = written(tmp_path / "whole.jsonl")
    path = tmp_path / "cut.jsonl"
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        whole = content[:size].count(b"\n")
        with Journal.resume(path, SETTINGS) as journal:
            assert list(journal.done) == ["one", "two", "three"][: max(0, whole - 1)]
        assert path.read_bytes() == content[: content.rfind(b"\n", 0, size) + 1] or whole == 0


def test_a_journal_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    content = written(tmp_path / "whole.jsonl")
    path = tmp_path / "cut.jsonl"
    for size in (0, 5, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with Journal.resume(path, SETTINGS) as journal:
            before = list(journal.done)
            journal.append(result(name="next"))
        with Journal.resume(path, SETTINGS) as journal:
            assert list(journal.done) == [*before, "next"]


def test_the_last_result_of_a_mutant_counts(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.begin(path, SETTINGS) as journal:
        journal.append(result(name="one"))
        journal.append(result(Outcome.SURVIVED, "one"))
    with Journal.resume(path, SETTINGS) as journal:
        assert journal.done["one"].outcome is Outcome.SURVIVED


def test_a_run_about_something_else_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    before = written(path)
    with pytest.raises(UsageError, match="source was 'abc' and is 'xyz'; begin a new run"):
        Journal.resume(path, {**SETTINGS, "source": "xyz"})
    with pytest.raises(UsageError, match="full was None and is 'True'"):
        Journal.resume(path, {**SETTINGS, "full": "True"})
    assert path.read_bytes() == before


def test_a_broken_line_in_the_middle_is_told_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{half\n" + lines[2])
    with pytest.raises(FileFormatError, match=r"journal\.jsonl:2: "):
        Journal.resume(path, SETTINGS)


def test_a_journal_without_settings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(written(tmp_path / "other.jsonl").partition(b"\n")[2])
    with pytest.raises(FileFormatError, match=":1: no settings"):
        Journal.resume(path, SETTINGS)


def test_a_journal_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    before = written(path)
    with pytest.raises(UsageError, match="exists already"):
        Journal.begin(path, SETTINGS)
    assert path.read_bytes() == before


def test_a_journal_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        Journal.resume(tmp_path / "none.jsonl", SETTINGS)
