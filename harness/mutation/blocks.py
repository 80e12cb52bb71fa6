"""Statements of a Python text by their place: which of them hold a character, and in which blocks they stand.

All offsets count characters of the text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.mutation.edits import Change

Path = tuple[tuple[int, str], ...]  # the enclosing statements from outside in: (beginning, which of their blocks)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement and where it stands. A decorated definition begins at its first decorator."""

    begin: int
    end: int
    block_end: int  # end of the last statement of its block
    path: Path
    is_bound: bool  # nothing may stand before it: a docstring, an import from __future__
    is_compound: bool


def statements(source: str) -> tuple[Statement, ...]:
    """Return the statements of a module's own block."""
    return tuple(each for each, _ in _block(ast.parse(source).body, (), _Lines(source)))


def enclosing(source: str, change: Change) -> tuple[Statement, ...]:
    """Return the statements that hold the first changed character, innermost first; () where no mark may stand.

    A statement is left out when the change runs on behind the block that it stands in: what lies there runs without it.
    """
    lines = _Lines(source)
    found: list[Statement] = []
    blocks: list[tuple[Sequence[ast.stmt], Path]] = [(ast.parse(source).body, ())]
    while blocks:
        body, path = blocks.pop()
        for statement, node in _block(body, path, lines):
            if not _holds(source, statement, change.begin):
                continue
            if statement.is_bound:
                return ()
            if ends_inside(source, change.begin, change.end, statement.block_end):
                found.append(statement)
            blocks += [(inner, (*path, (statement.begin, name))) for name, inner in _blocks(node)]
    return tuple(reversed(found))


def ends_inside(source: str, begin: int, end: int, block_end: int) -> bool:
    """Say whether the text from `begin` to `end`, white space at its end left out, ends where the block does or before."""
    return begin + len(source[begin:end].rstrip()) <= max(block_end, begin)


def path_to(source: str, call: str) -> tuple[list[tuple[int | None, str]], int]:
    """Return the path of the statement that is exactly `call`, and the end of the block that it stands in."""
    lines = _Lines(source)
    blocks: list[tuple[Sequence[ast.stmt], Path]] = [(ast.parse(source).body, ())]
    while blocks:
        body, path = blocks.pop()
        for statement, node in _block(body, path, lines):
            if source[statement.begin : statement.end] == call:
                return list(path), statement.block_end
            blocks += [(inner, (*path, (statement.begin, name))) for name, inner in _blocks(node)]
    raise ValueError(f"{call}: is no statement of this text")


class _Lines:
    """Turns ast's (line, column in UTF-8 bytes) into offsets of characters."""

    def __init__(self, source: str) -> None:
        self._lines = source.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def offset(self, line: int, column: int) -> int:
        text = self._lines[line - 1]
        return self._starts[line - 1] + (column if text.isascii() else len(text.encode()[:column].decode()))


def _block(body: Sequence[ast.stmt], path: Path, lines: _Lines) -> Iterator[tuple[Statement, ast.stmt]]:
    block_end = _end(body[-1], lines) if body else 0
    for index, node in enumerate(body):
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        begin = lines.offset(first, node.col_offset)
        is_compound = any(True for _ in _blocks(node))
        yield Statement(begin, _end(node, lines), block_end, path, _is_bound(node, index), is_compound), node


def _end(node: ast.stmt, lines: _Lines) -> int:
    assert node.end_lineno is not None and node.end_col_offset is not None, "ast.parse gives every statement its end"
    return lines.offset(node.end_lineno, node.end_col_offset)


def _holds(source: str, statement: Statement, offset: int) -> bool:
    """Say whether a statement holds a character; the white space before it on its line is its own."""
    line = source.rfind("\n", 0, statement.begin) + 1
    begin = statement.begin if source[line : statement.begin].strip() else line
    return begin <= offset < statement.end


def _blocks(node: ast.stmt) -> Iterator[tuple[str, Sequence[ast.stmt]]]:
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(node, name, None)
        if inner:
            yield name, inner
    for index, part in enumerate((*getattr(node, "handlers", ()), *getattr(node, "cases", ()))):
        yield f"part {index}", part.body


def _is_bound(node: ast.stmt, index: int) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
