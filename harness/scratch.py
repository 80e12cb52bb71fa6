"""Temporary folders that a kill leaves at most until the next run. Knows nothing of what lies in them."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = ".lock"


@contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """Make a folder `draftproof-PURPOSE-...` in the system's temp folder, and remove it at the end.

    Those of the same purpose whose process was killed are removed first: the lock in them is held by nobody.
    """
    prefix = f"draftproof-{purpose}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            _remove_if_left(left)
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        folder = Path(name)
        with (folder / f"{LOCK}-new").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            Path(lock.name).rename(folder / LOCK)  # it is never seen unheld
            yield folder


def _remove_if_left(folder: Path) -> None:
    """Remove a folder of this user's that nobody holds. Raises OSError where there is none, or it is held."""
    with (folder / LOCK).open("rb") as lock:
        if os.fstat(lock.fileno()).st_uid != os.getuid():
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
