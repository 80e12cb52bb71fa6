"""A copy of the subject's source with a fault planted in it. The working tree is read once and never written.

The source is copied to a snapshot first and every overlay is made from that, so that an edit of the working tree during a run
changes no mutant. Files are copied, not linked: a subject could write through a link.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

_IGNORED = ("__pycache__", "*.pyc", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")


@dataclass(frozen=True, slots=True)
class Source:
    """A tree that may be mutated: packages below a root, and what must lie beside them for their tests to run."""

    root: Path
    packages: tuple[str, ...]  # what an entry may edit
    beside: tuple[str, ...] = ()  # files and folders that test killers need, copied too

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that is copied."""
        return (*self.packages, *self.beside)

    def read(self, file: str) -> str | None:
        """Return the text of a file of the packages; None if there is none of that name."""
        path = self.root / file
        if file.partition("/")[0] not in self.packages or not path.is_file():
            return None
        return path.read_bytes().decode("utf-8")


def snapshot(source: Source, target: Path) -> Source:
    """Copy the source into `target` and return the copy. Raises UsageError for a name that is not there."""
    for name in source.names:
        _copy(source.root / name, target / name)
    return Source(target, source.packages, source.beside)


def make_overlay(source: Source, texts: Mapping[str, str], target: Path, *, with_tests: bool = False) -> Path:
    """Copy the packages into `target`, write the mutated `texts` over them, and return `target`.

    `with_tests` copies what lies beside the packages too. No bytecode is copied, so none can be stale.
    """
    for name in source.names if with_tests else source.packages:
        _copy(source.root / name, target / name)
    write(target, texts)
    return target


def write(target: Path, texts: Mapping[str, str]) -> None:
    """Write texts into an overlay, byte for byte."""
    for file, text in texts.items():
        path = target / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))


def tree_hash(root: Path, names: Iterable[str]) -> str:
    """Return a digest of every file's name and bytes below `root`/`names`; caches and bytecode do not count."""
    digest = hashlib.sha256()
    for path in sorted(_files(root, names)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _files(root: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        path = root / name
        if path.is_dir():
            yield from (each for each in path.rglob("*") if each.is_file() and not _is_ignored(each.relative_to(root)))
        elif path.is_file():
            yield path


def _is_ignored(path: Path) -> bool:
    return path.suffix == ".pyc" or any(part in _IGNORED for part in path.parts)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_IGNORED))
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    else:
        raise UsageError(f"{source}: no such file or folder; name packages of the source tree")
