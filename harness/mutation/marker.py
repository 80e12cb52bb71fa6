"""Marks that tell whether a planted statement ever ran: what makes NOT-REACHED a claim and not a guess.

`__hit__(i)` is put directly before the innermost statement of the ORIGINAL text that holds the first changed character. To run
what is inside a statement, the statement must have been started, and a later statement of a block is started only after an
earlier one; so a mark that was never set proves that the changed text never ran. A mark that was set proves nothing. The marked
text without its marks must parse to exactly the mutant's tree, else no mark is made and no claim can be.

A hit sets one byte of a mapped file: it survives SIGKILL, and costs 60 ns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.mutation.blocks import Statement, enclosing, ends_inside, path_to, statements
from harness.mutation.edits import Change, Edit, apply, changes
from harness.mutation.scopes import acts_early

MODULE = "_draftproof_marks"
PROLOGUE = f'__import__("{MODULE}")'
_RUNTIME = '''"""Sets one byte of a mapped file per mark that was passed."""

import builtins
import mmap
import os

_descriptor = os.open({path!r}, os.O_RDWR)
_marks = mmap.mmap(_descriptor, 0)
os.close(_descriptor)


def _hit(index):
    _marks[index] = 1


builtins.__hit__ = _hit
'''


@dataclass(frozen=True, slots=True)
class Marked:
    """A mutant's files with marks in them, or why no claim can be made."""

    texts: Mapping[str, str]  # the mutant's files; marked where `refusal` is ""
    imported: Mapping[str, int]  # file -> index of the mark that its import sets
    planted: Mapping[str, tuple[int, ...]]  # file -> indices of the marks before its changed statements
    refusal: str = ""  # why no claim can be made; "" = a claim can be

    @property
    def num_marks(self) -> int:
        """How many bytes the map needs."""
        return len(self.imported) + sum(len(indices) for indices in self.planted.values())


def mark(sources: Mapping[str, str | None], edits: Mapping[str, Sequence[Edit]]) -> Marked:
    """Mark every edit of every file. `sources` are the original texts, None for a file that the mutant adds."""
    texts = {file: apply(sources[file], of_file) for file, of_file in edits.items()}
    marked: dict[str, str] = {}
    imported: dict[str, int] = {}
    planted: dict[str, tuple[int, ...]] = {}
    index = 0
    for file, of_file in edits.items():
        source = sources[file]
        if source is None:
            return Marked(texts, {}, {}, f"{file} is new: what it adds may act from anywhere")
        if not file.endswith(".py"):
            return Marked(texts, {}, {}, f"{file} is no Python source")
        with_marks, refusal = _marked_file(source, of_file, index)
        if refusal:
            return Marked(texts, {}, {}, f"{file}: {refusal}")
        marked[file], imported[file] = with_marks, index
        planted[file] = tuple(range(index + 1, index + 1 + len(of_file)))
        index += 1 + len(of_file)
    return Marked(marked, imported, planted)


def runtime(marks_path: Path) -> str:
    """Return the source of the module that marked files import; `marks_path` is the mapped file."""
    return _RUNTIME.format(path=str(marks_path))


def not_reached(marked: Marked, marks: bytes) -> str:
    """Say why the planted statements cannot have run; "" where they may have, or no claim can be made."""
    if marked.refusal or any(marks[index] for indices in marked.planted.values() for index in indices):
        return ""
    asleep = [file for file, index in marked.imported.items() if not marks[index]]
    if asleep:
        return f"{', '.join(asleep)} was never imported"
    return "the planted statement never ran: " + ", ".join(marked.planted)


def stripped(tree: ast.Module) -> ast.Module:
    """Return a marked tree without its marks."""
    bare = _Strip().visit(tree)
    assert isinstance(bare, ast.Module)
    return bare


class _Strip(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        call = node.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return node
        is_prologue = call.func.id == "__import__" and ast.unparse(call) == ast.unparse(ast.parse(PROLOGUE))
        return None if is_prologue or call.func.id == "__hit__" else node


def _marked_file(source: str, edits: Sequence[Edit], first: int) -> tuple[str, str]:
    """Return (marked text, "") or ("", refusal). Mark `first` is the import's, the edits' follow in the order of their places."""
    mutant = apply(source, edits)
    if "\r" in source + mutant or "\f" in source + mutant or "__hit__" in source + mutant:
        return "", "its text has carriage returns, form feeds or marks of its own"
    early = acts_early(source, mutant)
    if early:
        return "", early
    text = mutant
    made = changes(source, edits)
    for number, change in reversed(list(enumerate(made, start=1))):
        placed = _placed(source, text, change, made, first + number)
        if placed is None:
            return "", f"no mark can be placed before line {source.count(chr(10), 0, change.begin) + 1}"
        text = placed
    with_prologue = _with_prologue(text, first)
    if with_prologue is None or not _same(with_prologue, mutant):
        return "", "no statement of the module can carry its import mark"
    return with_prologue, ""


def _placed(source: str, text: str, change: Change, made: Sequence[Change], index: int) -> str | None:
    """Put one mark before the innermost statement of `source` that can carry it.

    `text` is the mutant, marked already at the places of later edits. The mark must stand in the same blocks as the original
    statement, and what the change put in may not run on behind the mark's block: it could run without passing the mark.
    """
    for statement in enclosing(source, change):
        want = [(_moved(begin, made), block) for begin, block in statement.path]
        for candidate in _insertions(source, text, statement, change, made, index):
            if _same(candidate, text):
                grown = len(candidate) - len(text)
                got, last = path_to(candidate, f"__hit__({index})")
                if got == want and ends_inside(text, change.mutant_begin, change.mutant_end, last - grown):
                    return candidate
    return None


def _insertions(
    source: str, text: str, statement: Statement, change: Change, made: Sequence[Change], index: int
) -> Iterator[str]:
    line = source.rfind("\n", 0, statement.begin) + 1
    indent = source[line : statement.begin]
    at = _moved(statement.begin, made)
    if at is not None:
        yield f"{text[:at]}__hit__({index}); {text[at:]}"
        if not indent.strip():
            yield f"{text[:at]}__hit__({index})\n{indent}{text[at:]}"
    elif not indent.strip() and text[: change.mutant_begin].endswith("\n"):
        yield f"{text[: change.mutant_begin]}{indent}__hit__({index})\n{text[change.mutant_begin :]}"


def _moved(offset: int, made: Sequence[Change]) -> int | None:
    """Return where an offset of the original lies in the mutant; None if an edit swallowed it."""
    shift = 0
    for change in made:
        if change.begin < offset < change.end:
            return None
        if change.end <= offset and change.begin < offset:
            shift = change.mutant_end - change.end
    return offset + shift


def _same(marked: str, text: str) -> bool:
    """Say whether two texts compile and are one tree once their marks are taken off."""
    try:
        compile(marked, "<marked>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return ast.dump(stripped(ast.parse(marked))) == ast.dump(stripped(ast.parse(text)))


def _with_prologue(text: str, index: int) -> str | None:
    free = [statement for statement in statements(text) if not statement.is_bound]
    if not free:
        return None
    at = free[0].begin
    return f"{text[:at]}{PROLOGUE}; __hit__({index}){chr(10) if free[0].is_compound else '; '}{text[at:]}"
