"""Code objects of the subject's sources, compiled once in the warm parent and taken by every fork that has the same text.

Compiling is half of a forked subject's start: no bytecode is written beside its sources, so each would compile them all.
Nothing of the subject is run here, and a file whose text differs in one byte is compiled by the subject itself.
Standard library only: it runs in the keeper.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any


def compile_sources(root: str, packages: Sequence[str]) -> dict[bytes, CodeType]:
    """Compile every module of the packages below `root`; by text. A file that does not compile is left out."""
    codes: dict[bytes, CodeType] = {}
    with warnings.catch_warnings(action="ignore"):  # the subject's own compiler warns where it should
        for package in packages:
            for file in sorted(Path(root, package).rglob("*.py")):
                text = file.read_bytes()
                try:
                    codes[text] = compile(text, str(file), "exec", dont_inherit=True)
                except (SyntaxError, ValueError):
                    continue
    return codes


def install(codes: Mapping[bytes, CodeType]) -> None:
    """Have this process's importer take a module's code from `codes` where its text is there."""
    compile_source = SourceFileLoader.source_to_code

    def source_to_code(self: SourceFileLoader, data: Any, path: Any, **options: Any) -> CodeType:
        code = codes.get(bytes(data)) if isinstance(data, bytes | bytearray | memoryview) else None
        return compile_source(self, data, path, **options) if code is None else renamed(code, str(path))

    SourceFileLoader.source_to_code = source_to_code  # type: ignore[method-assign,assignment]


def renamed(code: CodeType, path: str) -> CodeType:
    """Return the code, and all code within it, as if it had been compiled from the file `path`."""
    constants = tuple(renamed(one, path) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=path, co_consts=constants)
