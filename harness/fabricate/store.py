"""The cache of fabricated recipes: made on demand, under their content's hash, whole or not at all.

An entry is named by the recipe's bytes, the bytes of the sources that make and describe it, and numpy's version. It is
built in a directory beside and renamed; one lock per cache keeps a second process waiting instead of building the same. A
kill leaves at most a directory that the next build removes. It does not know what is built.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import numpy as np

from harness.errors import FileFormatError, UsageError
from harness.fabricate.build import MODEL, PACKS, build
from harness.fabricate.recipe import Recipe, read_recipe
from harness.records import fixture as records
from harness.records.files import read_json, write_json
from harness.records.fixture import Fixture

FIXTURE_FILE = "fixture.json"
MOST_BYTES = 1 << 30  # after a build, entries that were not used for longest are removed down to this size
_HASH_DIGITS = 12
_BUILDING = ".building-"


def fabricate(recipe: Path, cache: Path | None = None) -> Fixture:
    """Return the fixture of a recipe and of its companions, building first what this cache does not hold.

    Each recipe has an entry of its own. Raises FileFormatError on a broken recipe, FabricationError when it cannot be made,
    UsageError on an unusable cache.
    """
    root = (cache or default_cache(os.environ)).absolute()
    parsed = read_recipe(recipe)
    beside = [(path, read_recipe(path)) for path in (recipe.parent / name for name in parsed.companions)]
    _check_companions(recipe, parsed, beside)
    entries = [_entry(path, one, root) for path, one in ((recipe, parsed), *beside)]
    if any(made for _, made in entries):
        clean(root, MOST_BYTES)
    own, *others = (fixture for fixture, _ in entries)
    return msgspec.structs.replace(own, companions=tuple(others))


def _check_companions(recipe: Path, parsed: Recipe, beside: Sequence[tuple[Path, Recipe]]) -> None:
    names = Counter([parsed.name, *(one.name for _, one in beside)])
    for name, count in names.items():
        if count > 1:
            raise FileFormatError(f"{recipe}: companions: {count} recipes are named {name!r}; names differ")
    for path, one in beside:
        if one.companions:
            raise FileFormatError(f"{path}: companions={list(one.companions)}: a companion has none; name them in {recipe.name}")


def _entry(path: Path, recipe: Recipe, root: Path) -> tuple[Fixture, bool]:
    """Return the fixture of one recipe, and whether it was built now."""
    digest = content_digest(path.read_bytes())
    entry = root / f"{recipe.name}-{digest}"
    made = make_once(root, entry, lambda directory: _build(recipe, digest, directory, entry))
    with suppress(PermissionError):  # a cache that may only be read keeps its order
        os.utime(entry)
    return _load(entry), made


def default_cache(environment: Mapping[str, str]) -> Path:
    """Return $DRAFTPROOF_CACHE, else $XDG_CACHE_HOME/draftproof, else ~/.cache/draftproof."""
    if environment.get("DRAFTPROOF_CACHE"):
        return Path(environment["DRAFTPROOF_CACHE"])
    home = environment.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "draftproof"


def content_digest(recipe: bytes) -> str:
    """Return the digits that name an entry: what the recipe says, how it is made and described, and on which numpy."""
    digest = hashlib.sha256()
    sources = [*sorted(Path(__file__).parent.glob("*.py")), Path(records.__file__)]
    parts = [recipe, np.__version__.encode(), *(part for one in sources for part in (one.name.encode(), one.read_bytes()))]
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:_HASH_DIGITS]


def make_once(root: Path, target: Path, make: Callable[[Path], None]) -> bool:
    """Make a directory under a cache unless it is there: `make` fills a directory beside, which is then renamed.

    Returns whether it was made now. Two processes never make the same; nothing half-made is ever at `target`.
    """
    if target.is_dir():
        return False
    with _locked(root):
        if target.is_dir():
            return False
        _remove_leftovers(root)
        scratch = Path(tempfile.mkdtemp(dir=root, prefix=_BUILDING))
        try:
            make(scratch)
            scratch.chmod(0o755)
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch.rename(target)
        except BaseException:
            shutil.rmtree(scratch)
            raise
    return True


def clean(cache: Path | None = None, keep_bytes: int = 0) -> tuple[Path, ...]:
    """Remove entries, those unused for longest first, until the rest fits into `keep_bytes`; return what was removed."""
    root = (cache or default_cache(os.environ)).absolute()
    with _locked(root):
        _remove_leftovers(root)
        entries = [path.parent for path in root.glob(f"*/{FIXTURE_FILE}")]
        entries.sort(key=lambda entry: entry.stat().st_mtime_ns)
        sizes = {entry: _size(entry) for entry in entries}
        removed = []
        for entry in entries:
            if sum(sizes.values()) <= keep_bytes:
                break
            shutil.rmtree(entry)
            del sizes[entry]
            removed.append(entry)
    return tuple(removed)


def _build(recipe: Recipe, digest: str, directory: Path, entry: Path) -> None:
    """Build into `directory`; the fixture names `entry`, where the directory will be."""
    streams = build(recipe, directory)
    fixture = Fixture(
        recipe=f"{recipe.name}@{digest}",
        model=str(entry / MODEL),
        packs={pack.name: str(entry / PACKS / pack.name) for pack in recipe.all_packs},
        streams=streams,
        vocab_bound=recipe.model.vocab,
        block_sizes={pack.name: pack.shape.block_size for pack in recipe.all_packs},
    )
    write_json(directory / FIXTURE_FILE, fixture)


def _load(entry: Path) -> Fixture:
    """Read an entry's fixture; its paths follow the cache when that was moved."""
    fixture = read_json(entry / FIXTURE_FILE, Fixture)
    packs = {name: str(entry / PACKS / name) for name in fixture.packs}
    return msgspec.structs.replace(fixture, model=str(entry / MODEL), packs=packs)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the cache's lock. The system drops it with the process, so that a kill never leaves it held."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = (root / ".lock").open("wb")
    except OSError as error:
        raise UsageError(f"cache {root}: cannot be written ({error.strerror}); set DRAFTPROOF_CACHE") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_leftovers(root: Path) -> None:
    """Remove what a killed build left; under the lock no build is running."""
    for left in root.glob(f"{_BUILDING}*"):
        shutil.rmtree(left)


def _size(entry: Path) -> int:
    """Return the bytes of an entry; a file with several names counts once."""
    stats = [path.lstat() for path in entry.rglob("*")]
    return sum({stat.st_ino: stat.st_size for stat in stats}.values())
