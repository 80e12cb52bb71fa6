"""What the shell's commands say and how they end, on runs that were recorded before."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from harness import __main__ as shell
from harness.records.files import write_json
from harness.records.recording import Run
from tests.harness.checks import families
from tests.harness.checks.ideal import Fault


def recorded(folder: Path, run: Run) -> str:
    path = folder / "run.json"
    write_json(path, run)
    return str(path)


def test_judge_says_that_expectations_were_taken_from_the_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(shell.app, ["judge", recorded(tmp_path, families.run_of("exact-drafts"))])
    assert (result.exit_code, result.stderr) == (0, "expectations: taken from the file\n")


def test_judge_says_that_a_file_holds_no_expectations_and_is_not_lossless_without(tmp_path: Path) -> None:
    run = msgspec.structs.replace(families.run_of("exact-drafts"), expectations=None)
    result = CliRunner().invoke(shell.app, ["judge", recorded(tmp_path, run)])
    assert (result.exit_code, result.stderr) == (2, "expectations: none: the file holds none\n")


def test_judge_says_that_expectations_were_computed_anew_and_judges_by_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = families.run_of("exact-drafts")
    monkeypatch.setattr(
        "harness.gate.recomputed", lambda run, _recipe: msgspec.structs.replace(run, expectations=right.expectations)
    )
    path = recorded(tmp_path, msgspec.structs.replace(right, expectations=None))
    result = CliRunner().invoke(shell.app, ["judge", path, "--recompute"])
    assert (result.exit_code, result.stderr) == (0, "expectations: computed anew from tiny@test\n")


def test_judge_tells_the_divergence_of_a_reply_in_text_and_as_data(tmp_path: Path) -> None:
    path = recorded(tmp_path, families.run_of("fallback-round", Fault.FIRST_UNSEEN, arms=("lookup",)))
    text = CliRunner().invoke(shell.app, ["judge", path])
    assert text.exit_code == 2
    assert "first differing token 1, behind 1 equal ones:" in text.stdout
    data = msgspec.json.decode(CliRunner().invoke(shell.app, ["judge", path, "--json"]).stdout)
    told = [finding for result in data["results"] for finding in result["findings"] if "divergence" in finding]
    assert {finding["divergence"]["unit"] for finding in told} == {"tokens"}
    assert all(finding["divergence"]["gap_unknown"] == "no forward was computed there" for finding in told)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--no-such-option"], "No such option: --no-such-option"),
        (["mutate", "--resume"], "Option '--resume' requires an argument"),
        (["run", "--tier", "huge"], "Invalid value for '--tier'"),
        (["judge"], "Missing argument 'recording'"),
        (["no-such-command"], "No such command 'no-such-command'"),
    ],
)
def test_a_command_line_that_is_wrong_is_told_without_a_traceback(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["draftproof", *words])
    with pytest.raises(SystemExit) as ended:
        shell.main()
    told = capsys.readouterr().err
    assert ended.value.code == shell.ExitCode.USAGE
    assert said in " ".join(told.split())
    assert "Traceback" not in told
