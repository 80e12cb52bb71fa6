"""What an arm with a device is given to open: a node made for its subject alone, or a file where no private mount is allowed.

Neither is an accelerator: the node behaves as /dev/null. Only an arm that is described so gets the machine's own device. It does not
know what a subject does with it.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path

from harness.records.recording import REAL_DEVICE as REAL

FILE_NAME = "device-node"


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """The path that one subject is told to open."""

    path: str
    is_private: bool  # a node that no other process sees
    is_real: bool = False  # the machine's own

    @property
    def node(self) -> str:
        """The node to make in the subject's mount namespace; "" for none."""
        return self.path if self.is_private else ""

    @property
    def watched(self) -> str:
        """The shell pattern that matches the path alone."""
        return glob.escape(self.path)

    @property
    def fact(self) -> str:
        """What a recording says of it."""
        if self.is_real:
            return f"{REAL} {self.path}"
        return f"private node {self.path}" if self.is_private else f"configured path {self.path}"


def given_device(device: str, file_folder: Path | None = None, *, is_real: bool = False) -> GivenDevice | None:
    """Return what an arm that names `device` is given, None where it names none.

    `file_folder`: where no private mount is allowed, the folder in which a file is made to stand for the node. `is_real`: nothing is
    made, the machine's own device is opened.
    """
    if not device:
        return None
    if is_real:
        return GivenDevice(device, is_private=False, is_real=True)
    if file_folder is None:
        return GivenDevice(device, is_private=True)
    path = file_folder / FILE_NAME
    path.touch()
    return GivenDevice(str(path), is_private=False)
