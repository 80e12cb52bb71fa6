"""The pages under docs/ say what the code has: every check, flag, verdict, exit code and key by name, and links that resolve."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec
import pytest

from harness.checks.registry import ALL_CHECKS
from harness.fabricate.recipe import read_recipe
from harness.fabricate.streams import make_streams
from harness.mutation.catalogue import ACCEPTED_FILE, SOURCE_FILE
from harness.mutation.entry import Acceptance, Activation, Entry
from harness.mutation.folder import JOURNAL, OUTCOMES
from harness.mutation.matrix import ExitCode
from harness.mutation.world import SourceFile
from harness.records.finding import Verdict
from harness.records.known import KnownFault
from harness.records.outcome import Outcome
from harness.subjects import declarations
from harness.subjects.description import BUILT_IN, Description, bundled_names, load_description
from harness.subjects.tables import Arm, MetricsSource

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FLAGS = ROOT / "forward_serve" / "serving" / "flags.py"
PAGES = [*(ROOT / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md")), *sorted(DOCS.glob("*.md"))]
MANY = {"arms": Arm, "known_faults": KnownFault}  # tables of which a description has several: their keys stand bare
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TOML = re.compile(r"^```toml$(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    """The text of a page under docs/."""
    return (DOCS / name).read_text()


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of every table row of a page, without heads and rules."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        is_head = index + 1 < len(lines) and re.match(r"\|[-|: ]+\|$", lines[index + 1])
        if line.startswith("|") and not is_head and not re.match(r"\|[-|: ]+\|$", line):
            yield [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def section(text: str, heading: str) -> str:
    """The text below one heading, up to the next."""
    (found,) = re.findall(rf"^##+ {re.escape(heading)}$(.*?)(?=^##? |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(found)


def names_in(cell: str) -> list[str]:
    """The names that a cell sets as code."""
    return re.findall(r"`([^`]+)`", cell)


def anchors(path: Path) -> set[str]:
    """The anchors that a page's headings make, as GitHub spells them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def laws_of(text: str) -> dict[str, str]:
    """Check id -> verdict, by the rows of checks.md that have an id, a law, what is read, a verdict and what is not seen."""
    return {cells[0]: cells[3] for cells in rows(text) if len(cells) == 5}


def test_checks_md_has_a_row_for_each_check_of_the_registry_with_its_verdict() -> None:
    documented = laws_of(page("checks.md"))
    assert {check.id: documented.get(check.id) for check in ALL_CHECKS} == {check.id: check.verdict.value for check in ALL_CHECKS}


def test_checks_md_has_no_row_for_a_check_that_nobody_wrote() -> None:
    sources = "".join(path.read_text() for path in sorted((ROOT / "harness" / "checks").rglob("*.py")))
    assert [check_id for check_id in laws_of(page("checks.md")) if f'"{check_id}"' not in sources] == []


def test_checks_md_lists_the_verdicts_worst_first() -> None:
    got = [cells[0] for cells in rows(section(page("checks.md"), "Verdicts, worst first"))]
    assert got == [verdict.value for verdict in Verdict]


def test_engine_md_has_a_row_for_each_flag_that_the_engine_takes() -> None:
    calls = [node for node in ast.walk(ast.parse(FLAGS.read_text())) if isinstance(node, ast.Call)]
    given = [call.args[0].value for call in calls if call.args and isinstance(call.args[0], ast.Constant)]
    want = {flag for flag in given if isinstance(flag, str) and re.fullmatch(r"--?[a-z-]+", flag)}
    got = {names_in(cells[0])[0].split()[0] for cells in rows(section(page("engine.md"), "Command line"))}
    assert {"-m", "-p", "--spec-lookup"} <= want  # the flags were found
    assert got == want


def test_mutants_md_has_a_row_for_each_verdict_of_a_mutant() -> None:
    got = [cells[0] for cells in rows(section(page("mutants.md"), "Verdicts"))]
    assert got == [outcome.value for outcome in Outcome]


def test_mutants_md_has_a_row_for_each_exit_code() -> None:
    got = {(int(cells[0]), cells[1]) for cells in rows(section(page("mutants.md"), "Exit codes"))}
    assert got == {(code.value, code.name) for code in ExitCode}


def test_mutants_md_names_each_key_and_file_of_the_catalogue() -> None:
    text = page("mutants.md")
    keys = {name for cells in rows(section(text, "The catalogue")) for name in names_in(" ".join(cells))}
    fields = [name for kind in (Entry, Acceptance, SourceFile) for name in kind.__struct_fields__]
    assert [name for name in fields if name not in keys] == []
    assert [kind.value for kind in Activation if kind.value not in " ".join(keys)] == []
    assert [name for name in (ACCEPTED_FILE, SOURCE_FILE, JOURNAL, OUTCOMES) if f"`{name}`" not in text] == []


def described_keys() -> Iterator[str]:
    """Yield every key of a description as its page spells it."""
    for field in msgspec.structs.fields(Description):
        kinds = [kind for kind in (field.type, *getattr(field.type, "__args__", ())) if hasattr(kind, "__struct_fields__")]
        if field.name == "path":  # where it was read from; no key of the file
            continue
        if field.name in MANY:
            yield from MANY[field.name].__struct_fields__
        elif kinds:
            yield from (f"{field.name}.{name}" for name in kinds[0].__struct_fields__)
        else:
            yield field.name


def test_subjects_md_has_a_row_for_each_key_of_a_description() -> None:
    first_cells = [cells[0] for cells in rows(section(page("subjects.md"), "The format, key by key"))]
    documented = {
        name.partition(".")[0].strip("[]") if name.startswith("[") else name for cell in first_cells for name in names_in(cell)
    }
    assert sorted(set(described_keys()) - documented) == []
    assert sorted(name for name in documented - set(described_keys()) - set(MANY) if "." in name) == []


def test_subjects_md_names_each_word_of_the_closed_sets_and_each_placeholder() -> None:
    text = page("subjects.md")
    sets = [
        one for one in vars(declarations).values() if isinstance(one, type) and issubclass(one, StrEnum) and one is not StrEnum
    ]
    words = [word.value for one in sets for word in one] + [f"`{{{name}}}`" for name in BUILT_IN]
    words += [f"`{name}`" for name in MetricsSource.__struct_fields__]
    assert len(sets) >= 9  # the sets were found
    assert [word for word in words if word not in text] == []


def test_the_example_of_subjects_md_is_a_description_that_loads(tmp_path: Path) -> None:
    (example,) = TOML.findall(section(page("subjects.md"), "A complete example"))
    path = tmp_path / "my-engine.toml"
    path.write_text(example)
    description = load_description(path)
    assert [description.arms_of(part) for part in ("plain", "lookup", "draft")] == [("plain",), ("ngram",), ("dflash",)]


def test_the_walk_of_subjects_md_grows_a_description_that_loads_at_every_step(tmp_path: Path) -> None:
    path = tmp_path / "my-engine.toml"
    minimal, *steps = TOML.findall(page("subjects.md").partition("## Your own engine")[2].partition("## A complete example")[0])
    path.write_text(minimal)
    assert load_description(path).arms_of("lookup") == ()
    path.write_text(minimal + "".join(steps))
    grown = load_description(path)
    assert (grown.arms_of("plain"), grown.arms_of("lookup")) == (("plain",), ("ngram",))
    assert grown.declared().reports_counts


def test_the_walk_of_subjects_md_asks_for_what_the_shipped_recipe_says() -> None:
    prompt, reply = "iGMYy_U0ZK,O=&m8", "Gtv1&9C<"
    recipe = read_recipe(ROOT / "fixtures" / "recipes" / "tiny.toml")
    (stream,) = [one for one in make_streams(recipe.streams, recipe.prompt_length, recipe.reply_length) if one.name == "main-1"]
    assert (stream.prompt, stream.reply[: len(reply)]) == (prompt, reply)
    assert all(text in page("subjects.md") for text in (prompt, reply))


def test_subjects_md_names_every_shipped_description() -> None:
    text = section(page("subjects.md"), "The shipped descriptions")
    assert [name for name in bundled_names() if f"| `{name}` |" not in text] == []


def test_subjects_md_names_each_arm_that_the_shipped_reference_engine_describes() -> None:
    text = section(page("subjects.md"), "Which arms the plans start")
    assert "forward-serve" in bundled_names()
    assert [arm for arm in load_description("forward-serve").arms if f"`{arm}`" not in text] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_resolve(path: Path) -> None:
    targets = LINK.findall(CODE.sub("", path.read_text()))
    broken = []
    for target in targets:
        if re.match(r"[a-z]+:", target):  # an address of the web
            continue
        file, _, anchor = target.partition("#")
        found = path.parent / file if file else path
        if not found.exists() or (anchor and anchor not in anchors(found)):
            broken.append(target)
    assert broken == []
