"""Faults of what is opened: a device that nobody told of, by the launched process or by a child of it."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from harness.mutation.relay.fault import Asked, Fault, Json

SUBMIT = 0xA501  # any request code: the device node of a test answers none


@dataclass(slots=True)
class ExtraOpen(Fault):
    """A device is opened once more."""

    path: str = "/dev/accel/accel0"
    by: str = "process"  # or "child"
    at: str = "start"  # or "request"

    def begin(self) -> None:
        """See Fault."""
        if self.at == "start":
            self._open()

    def request(self, asked: Asked) -> Json | None:
        """See Fault."""
        if self.at == "request" and self.when.holds(self.speech, asked):
            self._open()
        return None

    def _open(self) -> None:
        if self.by == "process":
            touch(self.path)
            return
        child = os.fork()
        if child == 0:
            touch(self.path)
            os._exit(0)
        os.waitpid(child, 0)


@dataclass(slots=True)
class ExtraSubmit(Fault):
    """A request costs a pass more than it says, on an arm that has this device."""

    path: str = "/dev/accel/accel0"

    def request(self, asked: Asked) -> Json | None:
        """See Fault."""
        if self.when.holds(self.speech, asked) and Path(self.path).exists():
            touch(self.path, submits=True)
        return None


def touch(path: str, *, submits: bool = False) -> None:
    """Try to open a path, and to submit to it where it is there; what comes of it is the tracer's."""
    try:
        device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if submits:
            fcntl.ioctl(device, SUBMIT)
    except OSError:  # it knows no such code
        pass
    finally:
        os.close(device)
