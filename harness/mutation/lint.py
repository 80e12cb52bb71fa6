"""Whether each entry of a catalogue can still be planted and judged: anchors, syntax, killers. Reads text; runs nothing."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from harness.mutation.edits import Edit, apply, overlaps, problem
from harness.mutation.entry import Mutant
from harness.records.outcome import Outcome

CODE_FIELDS = (  # of a code object: all but its constants and its places
    *("co_code", "co_exceptiontable", "co_flags", "co_stacksize", "co_name", "co_qualname", "co_names", "co_varnames"),
    *("co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount"),
)
ReadSource = Callable[[str], str | None]  # a file's text by its name below the source root; None = no such file


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a mutant is not run."""

    mutant_id: str
    outcome: Outcome  # STALE or UNVIABLE
    message: str


@dataclass(slots=True)
class TestNodes:
    """The tests of a project, found by reading their files; knows no parameters."""

    __test__ = False

    root: Path
    _names: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def problem(self, node: str) -> str:
        """Say why a node cannot be run; "" if its file has that test."""
        file, _, name = node.partition("::")
        if file not in self._names:
            path = self.root / file
            self._names[file] = _tests_of(path) if path.is_file() else None
        known = self._names[file]
        if known is None:
            return f"{file}: no such file; a test killer is test:<file>::<name>"
        if name.partition("[")[0] not in known:
            return f"{file}: holds no test {name!r}; use one of its {len(known)} tests"
        return ""


def lint(
    mutants: Iterable[Mutant], read: ReadSource, checks: Collection[str], arms: Collection[str], nodes: TestNodes
) -> tuple[Problem, ...]:
    """Return what is wrong with each mutant, at most one problem each. `checks` and `arms` are all that exist."""
    problems = []
    for mutant in mutants:
        found = _stale(mutant, read, checks, arms, nodes)
        if found is None and mutant.edits:
            why = unviable(mutant.edits, read)
            found = Problem(mutant.id, Outcome.UNVIABLE, why) if why else None
        if found is not None:
            problems.append(found)
    return tuple(problems)


def by_file(edits: Iterable[Edit]) -> Mapping[str, tuple[Edit, ...]]:
    """Return the edits of each file, in the order in which files are first named."""
    files: dict[str, tuple[Edit, ...]] = {}
    for edit in edits:
        files[edit.file] = (*files.get(edit.file, ()), edit)
    return files


def plant(edits: Iterable[Edit], read: ReadSource) -> Mapping[str, str]:
    """Return the mutated text of every file that the edits touch. Every edit must have no problem."""
    return {file: apply(read(file), of_file) for file, of_file in by_file(edits).items()}


def _stale(mutant: Mutant, read: ReadSource, checks: Collection[str], arms: Collection[str], nodes: TestNodes) -> Problem | None:
    messages = [problem(read(edit.file), edit) for edit in mutant.edits]
    messages += [
        f"{file}: two edits overlap; join them"
        for file, of_file in by_file(mutant.edits).items()
        if not any(messages) and (text := read(file)) is not None and overlaps(text, of_file)
    ]
    messages += [nodes.problem(node) for node in mutant.test_killers]
    known = set(checks)
    messages += [
        f"killers: no check is called {name!r}; use of {', '.join(checks)}"
        for name in (*mutant.check_killers, *mutant.entry.allowed)
        if name not in known and not name.startswith("test:")
    ]
    messages += [f"arms: no arm is called {arm!r}; use of {', '.join(arms)}" for arm in mutant.entry.arms if arm not in arms]
    told = "; ".join(message for message in messages if message)
    return Problem(mutant.id, Outcome.STALE, told) if told else None


def unviable(edits: Sequence[Edit], read: ReadSource) -> str:
    """Say why edits that can be planted make no mutant: a file that does not compile, or no code that changes; else ""."""
    changed = False
    for file, text in plant(edits, read).items():
        if not file.endswith(".py"):
            changed = True
            continue
        try:
            code = compile(text, file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return f"{file}: does not compile after the edit: {error}"
        original = read(file)
        changed = changed or original is None or not _are_same(code, _compiled(original))
    return "" if changed else "the edit changes no code; plant a fault"


@functools.lru_cache(maxsize=64)  # most mutants share a file with others
def _compiled(text: str) -> CodeType:
    return compile(text, "<source>", "exec", dont_inherit=True)


def _are_same(one: object, other: object) -> bool:
    """Tell whether two constants are the same, and two code objects but for their places in a file."""
    if not isinstance(one, CodeType) or not isinstance(other, CodeType):
        return type(one) is type(other) and (one == other if isinstance(one, frozenset) else repr(one) == repr(other))
    if [getattr(one, name) for name in CODE_FIELDS] != [getattr(other, name) for name in CODE_FIELDS]:
        return False
    return len(one.co_consts) == len(other.co_consts) and all(map(_are_same, one.co_consts, other.co_consts))


def _tests_of(path: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names.update(f"{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef))
    return frozenset(name for name in names if name.split("::")[-1].startswith("test"))
