"""Edits that act before their line runs: those that change what the compiler decides for a whole function.

One assignment more makes a name local from the function's first line on; one `yield` makes its call return at once. No mark
before the changed line can speak for such an edit.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType

Signature = tuple[object, ...]


def acts_early(original: str, mutant: str) -> str:
    """Name the code object whose flags, locals, cells or free variables differ between two texts; "" if there is none."""
    before, after = _frames(original), _frames(mutant)
    for name, signature in before.items():
        if name in after and after[name] != signature:
            return f"the edit changes the scope of {name[0]}, which acts before its line runs"
    return ""


def _frames(source: str) -> dict[tuple[str, int], Signature]:
    frames: dict[tuple[str, int], Signature] = {}
    for code in _walk(compile(source, "<scopes>", "exec", dont_inherit=True)):
        number = sum(1 for name, _ in frames if name == code.co_qualname)
        frames[code.co_qualname, number] = (
            code.co_flags,
            code.co_varnames,
            code.co_cellvars,
            code.co_freevars,
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
        )
    return frames


def _walk(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _walk(constant)
