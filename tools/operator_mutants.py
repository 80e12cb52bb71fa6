"""Operator mutants of the pure rooms: mutmut, run in a copy of the project, and its survivors held against docs/mutmut.md.

mutmut works in a folder `mutants` below the one it is started in, and that is the name of our catalogue: so it is started in
SCRATCH, which git ignores. It knows nothing of the catalogue and of named killers; any failing test kills one of its mutants.

Usage: python -m tools.operator_mutants [PATH ...]. Without a path: all that [tool.mutmut] names. It ends with 0 where every
survivor in a module that was looked at stands in docs/mutmut.md, 2 where one does not, 4 where mutmut could not run.
"""

from __future__ import annotations

import argparse
import enum
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRATCH = ROOT / "mutants-mutmut"
PAGE = ROOT / "docs" / "mutmut.md"
COPIED = ("forward_serve", "harness", "tests", "fixtures", "pyproject.toml")
LAST_LINES = 40  # of mutmut's log, where it could not run
CACHES = ("__pycache__", "*.pyc", ".hypothesis")
KILLED = "killed"  # mutmut's word; one that ran out of its time, or of which nothing is known, is not
MUTATED, TESTS = "only_mutate", "pytest_add_cli_args_test_selection"  # keys of [tool.mutmut]
PATH_CELL = re.compile(r"`([\w/]+\.py)`")


class ExitCode(enum.IntEnum):
    """How a run ends."""

    LISTED = 0
    NOT_LISTED = 2
    NO_RUN = 4


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test failed on: the lines that it takes out of a function, and those that it puts there."""

    file: str
    function: str
    old: str
    new: str

    @property
    def cells(self) -> str:
        """How its row in the table begins: stable while the line is, unlike the number that mutmut gives it."""
        old, new = (line.replace("|", r"\|") for line in (self.old, self.new))
        return f"| `{self.file}` | `{self.function}`: `{old}` → {f'`{new}`' if new else 'nothing'} |"


def narrowed(config: str, paths: Sequence[str]) -> str:
    """Return the text of pyproject.toml with these files and folders as what is mutated, and the tests of their rooms alone.

    Nothing is lost by that: the engine's tests never import the harness, nor the harness's the engine. Raises ValueError where
    [tool.mutmut] does not hold a key as one list with a path a line.
    """
    rooms = {Path(path).parts[0] for path in paths}
    tests = tomllib.loads(config).get("tool", {}).get("mutmut", {}).get(TESTS, [])
    mutated = [path if path.endswith(".py") else f"{path.rstrip('/')}/*" for path in paths]
    return _with_list(_with_list(config, MUTATED, mutated), TESTS, [test for test in tests if Path(test).parts[1] in rooms])


def _with_list(config: str, key: str, values: Sequence[str]) -> str:
    text, count = re.subn(rf"^{key} = \[.*?^\]$", f"{key} = {json.dumps(values)}", config, flags=re.MULTILINE | re.DOTALL)
    if count != 1:
        raise ValueError(f"pyproject.toml: {key} is there {count} times as a list; [tool.mutmut] holds it once, a path a line")
    return text


def change_of(diff: str) -> tuple[str, str]:
    """Return what a unified diff takes out and what it puts in, each on one line."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++", "@@"))]
    out, put = ([line[1:].strip() for line in lines if line.startswith(sign)] for sign in "-+")
    return " ".join(out), " ".join(put)


def looked_at(page: str) -> frozenset[str]:
    """Return the modules whose survivors have all been looked at: those under the page's heading of that name."""
    _, _, rest = page.partition("\n## Looked at\n")
    return frozenset(PATH_CELL.findall(rest.partition("\n## ")[0]))


def not_listed(survivors: Sequence[Survivor], page: str) -> list[Survivor]:
    """Return the survivors in modules that were looked at that have no row."""
    modules = looked_at(page)
    return [each for each in survivors if each.file in modules and each.cells not in page]


def gone(survivors: Sequence[Survivor], page: str, files: Sequence[str]) -> list[str]:
    """Return the rows of these files whose mutant does not survive any more."""
    known = {each.cells for each in survivors}
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    return [row for row in rows if PATH_CELL.findall(row)[0] in files and not any(row.startswith(cells) for cells in known)]


def copy_project(paths: Sequence[str]) -> None:
    """Make SCRATCH anew, so that no result of an earlier run is believed."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, SCRATCH / name, ignore=shutil.ignore_patterns(*CACHES))
        else:
            shutil.copy2(source, SCRATCH / name)
    if paths:
        config = SCRATCH / "pyproject.toml"
        config.write_text(narrowed(config.read_text(), paths))


def run_mutmut(workers: int) -> int:
    """Run mutmut in SCRATCH and return its exit code. Its spinner goes to a terminal, or else to a file."""
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(workers)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}  # the seed orders a mutant's tests
    if sys.stdout.isatty():
        return subprocess.run(command, cwd=SCRATCH, env=environment, check=False).returncode
    log = SCRATCH / "mutmut.log"
    with log.open("wb") as stream:
        code = subprocess.run(command, cwd=SCRATCH, env=environment, stdout=stream, stderr=stream, check=False).returncode
    if code != 0:
        lines = log.read_text(errors="replace").replace("\r", "\n").splitlines()
        print("\n".join(lines[-LAST_LINES:]))
    return code


def outcomes() -> Iterator[tuple[str, str, str]]:
    """Yield file, name and outcome of each mutant that mutmut made in SCRATCH."""
    from mutmut.stats import status_by_exit_code  # noqa: PLC0415  # of the extra `dev`

    for meta in sorted((SCRATCH / "mutants").rglob("*.py.meta")):
        file = meta.relative_to(SCRATCH / "mutants").as_posix().removesuffix(".meta")
        codes: Mapping[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
        yield from ((file, name, status_by_exit_code[code]) for name, code in codes.items())


def survivor(file: str, name: str) -> Survivor:
    """Return what a mutant of SCRATCH changes."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant  # noqa: PLC0415  # of the extra `dev`
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key  # noqa: PLC0415

    function, class_name = orig_function_and_class_names_from_key(name)
    with chdir(SCRATCH):
        old, new = change_of(get_diff_for_mutant(name, path=file))
    return Survivor(file, f"{class_name}.{function}" if class_name else function, old, new)


def report(page: str) -> ExitCode:
    """Print one line a module, the survivors, and what docs/mutmut.md does not say, or says no more."""
    found = list(outcomes())
    files = sorted({file for file, _, _ in found})
    for file in files:
        counts = Counter(outcome for each, _, outcome in found if each == file)
        print(f"{file}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    survivors = [survivor(file, name) for file, name, outcome in found if outcome != KILLED]
    for each in sorted(set(survivors), key=survivors.index):
        print(each.cells)
    for row in gone(survivors, page, files):
        print(f"survives no more, take its row out of docs/mutmut.md: {row}")
    missing = not_listed(survivors, page)
    for each in missing:
        print(f"not killed and not in docs/mutmut.md; write a test, or a row with a reason: {each.cells}")
    print(f"{len(found)} mutants, {len(survivors)} not killed, {len(missing)} of them not listed")
    return ExitCode.NOT_LISTED if missing else ExitCode.LISTED


def main() -> int:
    """Run mutmut on the given paths and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a module or a folder, from the project's root")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    for path in arguments.paths:
        if not (ROOT / path).exists():
            parser.error(f"{path}: no such file or folder below the project's root")
    copy_project(arguments.paths)
    code = run_mutmut(arguments.workers)
    if code != 0:
        print(f"mutmut ended with {code}: its last lines above say why; the selected tests must be green without any mutant")
        return ExitCode.NO_RUN
    return report(PAGE.read_text())


if __name__ == "__main__":
    sys.exit(main())
