"""Lines on stderr: each whole, in one write. Knows no line's meaning."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

STDERR = 2


def log_line(message: str) -> None:
    """Write one line to stderr, unbuffered; a reader that has left changes nothing."""
    try:
        os.write(STDERR, (" ".join(message.split()) + "\n").encode())
    except OSError:
        return


def described(error: Exception) -> str:
    """Describe an error in one line, with the place that raised it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
