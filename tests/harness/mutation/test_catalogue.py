from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from harness.errors import FileFormatError
from harness.mutation.catalogue import load_catalogue, load_forced_fail
from harness.mutation.edits import Edit
from harness.mutation.entry import Activation, Kind

ENTRY = """\
[[mutant]]
id = "no-greedy-gate"
title = "A sampled request speculates."
why = "seed: no greedy gate"
kind = "sampling-not-gated"
file = "p/gate.py"
find = "if greedy"
replace = "if True"
killers = ["abstained", "test:tests/a.py::test_b"]
"""
ACCEPTED = '[[accepted]]\nid = "no-greedy-gate"\nreason = "equivalent"\nexpires = 2030-01-02\n'


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder


def test_an_entry_is_loaded_with_its_defaults(tmp_path: Path) -> None:
    catalogue = load_catalogue(write(tmp_path / "toy", "gates.toml", ENTRY))
    (mutant,) = catalogue.mutants
    assert (catalogue.subject, mutant.family, mutant.id) == ("toy", "gates", "no-greedy-gate")
    assert mutant.edits == (Edit("p/gate.py", "if greedy", "if True"),)
    assert (mutant.check_killers, mutant.test_killers) == (("abstained",), ("tests/a.py::test_b",))
    assert (mutant.entry.kind, mutant.entry.activation) == (Kind.SAMPLING_NOT_GATED, Activation.FORK)
    assert not mutant.entry.died_kills


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('id = "no-greedy-gate"', 'id = "No_Gate"', "id: 'No_Gate' is not kebab-case"),
        ('title = "A sampled request speculates."', 'title = " "', "title: is empty"),
        ('why = "seed: no greedy gate"', 'why = ""', "why: is empty"),
        ("sampling-not-gated", "bad-luck", "Invalid enum value 'bad-luck' - at `$.kind`"),
        ('killers = ["abstained", "test:tests/a.py::test_b"]', "killers = []", "killers: is empty"),
        ('"abstained", "test:tests/a.py::test_b"', '"abstained", "abstained"', "killers: names one twice"),
        ('find = "if greedy"', 'find = ""', "find: is empty"),
        ('find = "if greedy"', 'find = "x"\nfnid = "y"', "unknown field `fnid`"),
        ('find = "if greedy"', "find = 3", "Expected `str`, got `int` - at `$.find`"),
        ('file = "p/gate.py"', 'file = "../gate.py"', "no path below the source root"),
        ('kind = "', 'allowed = ["abstained"]\nkind = "', "a killer must fail"),
        ('kind = "', 'patch = "x.patch"\nkind = "', "give exactly one of"),
        ('kind = "', 'env = {A = "1"}\nkind = "', "env needs live"),
        ('kind = "', 'activation = "live"\nkind = "', "live is a switch in env"),
        ('kind = "', 'cpu_budget_s = 0.0\nkind = "', "a budget must be above 0"),
    ],
)
def test_a_broken_entry_is_refused_with_file_entry_and_key(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in ENTRY
    folder = write(tmp_path, "gates.toml", ENTRY.replace(old, new))
    with pytest.raises(FileFormatError) as error:
        load_catalogue(folder)
    assert str(error.value).startswith(f"{folder / 'gates.toml'}: mutant ")
    assert told in str(error.value)


def test_every_fault_of_a_catalogue_is_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, "a.toml", ENTRY.replace("sampling-not-gated", "bad-luck"))
    write(tmp_path, "b.toml", "[[mutant]\n")
    write(tmp_path, "c.toml", "[[mutent]]\nid = 1\n")
    with pytest.raises(FileFormatError) as error:
        load_catalogue(tmp_path)
    assert [line.partition(": ")[0].rpartition("/")[2] for line in str(error.value).splitlines()] == [
        "a.toml",
        "b.toml",
        "c.toml",
        "c.toml",
    ]


def test_one_id_in_two_families_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.toml", ENTRY)
    write(tmp_path, "b.toml", ENTRY)
    with pytest.raises(FileFormatError, match="id 'no-greedy-gate' is used twice"):
        load_catalogue(tmp_path)


def test_a_patch_file_gives_the_edits_and_counts_by_content(tmp_path: Path) -> None:
    single = 'file = "p/gate.py"\nfind = "if greedy"\nreplace = "if True"\n'
    write(tmp_path, "gates.toml", ENTRY.replace(single, 'patch = "x.patch"\n'))
    write(tmp_path, "x.patch", "--- a/p/m.py\n+++ b/p/m.py\n@@ -1 +1 @@\n-a\n+b\n")
    before = load_catalogue(tmp_path).mutants[0]
    assert before.edits == (Edit("p/m.py", "a\n", "b\n"),)
    write(tmp_path, "x.patch", "--- a/p/m.py\n+++ b/p/m.py\n@@ -1 +1 @@\n-a\n+c\n")
    assert load_catalogue(tmp_path).mutants[0].fingerprint != before.fingerprint


def test_several_edits_may_make_one_mutant(tmp_path: Path) -> None:
    single = 'file = "p/gate.py"\nfind = "if greedy"\nreplace = "if True"\n'
    edits = '[[mutant.edits]]\nfile = "a.py"\nfind = "x"\nreplace = "y"\n[[mutant.edits]]\nfile = "new.py"\nreplace = "z"\n'
    write(tmp_path, "gates.toml", ENTRY.replace(single, "") + edits)
    assert load_catalogue(tmp_path).mutants[0].edits == (Edit("a.py", "x", "y"), Edit("new.py", "", "z"))


def test_an_environment_switch_has_no_edits(tmp_path: Path) -> None:
    single = 'file = "p/gate.py"\nfind = "if greedy"\nreplace = "if True"\n'
    write(tmp_path, "gates.toml", ENTRY.replace(single, 'env = {FAULT = "1"}\nactivation = "live"\n'))
    assert load_catalogue(tmp_path).mutants[0].edits == ()


def test_an_acceptance_holds_until_its_day_and_is_a_problem_after(tmp_path: Path) -> None:
    write(tmp_path, "gates.toml", ENTRY)
    write(tmp_path, "accepted.toml", ACCEPTED)
    catalogue = load_catalogue(tmp_path)
    last, after = datetime.date(2030, 1, 2), datetime.date(2030, 1, 3)
    found = catalogue.acceptance("no-greedy-gate", last)
    assert found is not None and found.reason == "equivalent"
    assert (catalogue.problems(last), catalogue.acceptance("no-greedy-gate", after)) == ((), None)
    assert "expired on 2030-01-02" in catalogue.problems(after)[0]


def test_an_acceptance_of_no_mutant_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path, "gates.toml", ENTRY)
    write(tmp_path, "accepted.toml", ACCEPTED.replace("no-greedy-gate", "gone"))
    assert "'gone' is no mutant" in load_catalogue(tmp_path).problems(datetime.date(2030, 1, 1))[0]


@pytest.mark.parametrize("line", ['reason = ""', "expires = 5"])
def test_an_acceptance_without_reason_or_date_is_refused(tmp_path: Path, line: str) -> None:
    key = line.split(maxsplit=1)[0]
    text = "\n".join(line if each.startswith(key) else each for each in ACCEPTED.splitlines())
    write(tmp_path, "gates.toml", ENTRY)
    write(tmp_path, "accepted.toml", text)
    with pytest.raises(FileFormatError, match="accepted 'no-greedy-gate'"):
        load_catalogue(tmp_path)


def test_the_forced_fail_probe_is_read_strictly(tmp_path: Path) -> None:
    assert load_forced_fail(tmp_path) == ()
    write(tmp_path / "probes", "forced-fail.toml", '[[edits]]\nfile = "a.py"\nfind = "x"\nreplace = "y"\n')
    assert load_forced_fail(tmp_path) == (Edit("a.py", "x", "y"),)
    write(tmp_path / "probes", "forced-fail.toml", "killers = []\n")
    with pytest.raises(FileFormatError, match="unknown key 'killers'"):
        load_forced_fail(tmp_path)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="no such folder"):
        load_catalogue(tmp_path / "nobody")


def test_the_kinds_are_the_27_of_public_reports_and_two_of_our_own() -> None:
    assert len(Kind) == 27 + 2
