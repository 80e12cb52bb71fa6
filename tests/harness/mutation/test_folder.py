from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.mutation.bench import Finished
from harness.mutation.folder import former_folder, new_folder
from harness.records.files import read_json
from harness.records.finding import Finding, Verdict
from harness.records.replay import Replay
from tests.harness.mutation.test_matrix import result
from tests.harness.mutation.toy import NOW


def test_two_runs_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    names = [new_folder(tmp_path / "reports", "toy", NOW).path.name for _ in range(3)]
    assert names == ["mutate-toy-20300102T030405Z", "mutate-toy-20300102T030405Z-2", "mutate-toy-20300102T030405Z-3"]


def test_a_folder_is_named_by_utc(tmp_path: Path) -> None:
    local = NOW.astimezone(datetime.timezone(datetime.timedelta(hours=5)))
    assert new_folder(tmp_path, "toy", local).path.name == "mutate-toy-20300102T030405Z"


def test_a_mutant_leaves_its_log_and_its_diff_whatever_bytes_they_hold(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "toy", NOW)
    folder.save(Finished(result(name="one"), "a \ud800 log\n", "a diff\n"))
    assert (folder.path / "logs" / "one.log").read_bytes() == b"a \\ud800 log\n"
    assert (folder.path / "diffs" / "one.diff").read_bytes() == b"a diff\n"


def test_what_a_mutant_found_against_the_expectation_lies_in_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "toy", NOW)
    finding = Finding("same-reply", Verdict.MISMATCH, "lookup", "r/1", "ids differs")
    replay = Replay("toy", (), finding, ())
    folder.save(Finished(result(name="one"), "", "", {("same-reply", "lookup", "r/1"): replay}))
    (path,) = (folder.path / "replays" / "one").iterdir()
    assert (path.name, read_json(path, Replay)) == ("01_same-reply_lookup_r-1.json", replay)


def test_a_closed_run_is_not_resumed(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "toy", NOW)
    with pytest.raises(UsageError, match=r"holds no journal\.jsonl"):
        former_folder(folder.path)
    folder.journal.write_text("")
    assert former_folder(folder.path) == folder
    folder.close({"schemaVersion": "2.0"}, b"<testsuites/>\n", "done")
    assert (folder.path / "summary.txt").read_text() == "done\n"
    with pytest.raises(UsageError, match="that run is whole"):
        former_folder(folder.path)
