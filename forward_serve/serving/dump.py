"""`--dump-logits`: the rows that chose a reply's tokens, as one .npy file that is there whole or not at all. Knows no loop.

The rows are the model's own, float32 [completion_tokens, vocab_size], padding included, before penalties, bias and grammar.
They go to a hidden file beside it as they come, so that a long reply costs no memory, and get their name when the reply is whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from forward_serve.errors import Refusal

FLOAT32 = "<f4"


def prepare_directory(directory: Path) -> Path:
    """Create the directory where it is missing, and try to write to it. Raises Refusal where that fails."""
    try:
        directory.mkdir(exist_ok=True)
        probe = directory / ".probe.part"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        rule = "logits are written there, one file a reply"
        raise Refusal(f"--dump-logits={directory}: {error.strerror}; {rule}; give a directory that can be written") from error
    return directory


class LogitDump:
    """The rows of one reply, written inside its `with` block and dropped there unless they are kept.

    Raises OSError where they cannot be written.
    """

    def __init__(self, directory: Path, response_id: str) -> None:
        self._path = directory / f"{response_id}.npy"
        self._part = directory / f".{response_id}.npy.part"
        self._file: BinaryIO
        self._width = 0

    def __enter__(self) -> Self:
        """Begin; a file that an earlier server left under this id is not this reply's and goes."""
        self._path.unlink(missing_ok=True)
        self._file = self._part.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        """Drop what was not kept."""
        self._file.close()
        self._part.unlink(missing_ok=True)

    def add(self, logits: NDArray[np.float32]) -> None:
        """Write the row [V] that chose the next token."""
        if not self._file.tell():
            self._width = len(logits)
            self._write_header(0)
        self._file.write(logits.astype(FLOAT32).tobytes())

    def keep(self, num_rows: int) -> None:
        """Give the file its name, with its first `num_rows` rows: one that chose an end token counts no more than the token."""
        self._file.seek(0)
        self._write_header(num_rows)
        self._file.truncate(self._file.tell() + num_rows * self._width * np.dtype(FLOAT32).itemsize)
        self._file.close()
        self._part.replace(self._path)

    def _write_header(self, num_rows: int) -> None:
        """Write the header; it has one length for every number of rows, so that it can be written again."""
        header = {"descr": FLOAT32, "fortran_order": False, "shape": (num_rows, self._width)}
        np.lib.format.write_array_header_1_0(self._file, header)
