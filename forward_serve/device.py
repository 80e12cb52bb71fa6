"""A simulated accelerator, for machines without one: its width, its rounding and its submits, computed on the host.

It opens the path that it is told once and submits each pass with one ioctl on that descriptor, so that whoever watches from
outside sees what a device's driver would see. It knows no model, and it leaves real accelerators alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

from forward_serve import bf16
from forward_serve.errors import EngineError, Refusal
from forward_serve.products import KEY_MULTIPLE, Rows, attend, linear

DEVICE_WIDTH = 8  # rows of a device pass
ACCEL_MAJOR = 261  # of accelerator nodes: linux/include/drm/drm_accel.h
SUBMIT = 0xD501  # _IO(0xD5, 1): of no driver, so that no file takes it for a command


class SimulatedDevice:
    """bf16 inputs, float32 sums, in passes of 8 rows; rows depend on each other no more than the host's do."""

    width = DEVICE_WIDTH
    key_multiple = KEY_MULTIPLE

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path) -> SimulatedDevice:
        """Open the device. Raises Refusal for a path that cannot be opened, and for a real accelerator, which is not tried."""
        flag = f"--device={path}"
        try:
            found = path.stat()
            if is_accelerator(found):
                number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
                rule = "this backend simulates a device and would open a real one for nothing"
                raise Refusal(f"{flag}: character device {number} is an accelerator; {rule}; give another path")
            return cls(path, os.open(path, os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            rule = "the simulated device is a path that can be opened to read and write"
            raise Refusal(f"{flag}: {error.strerror}; {rule}; give one, such as {os.devnull}") from error

    def close(self) -> None:
        """Close the descriptor; no pass may follow."""
        os.close(self._descriptor)

    def begin_pass(self) -> None:
        """Submit one pass. Raises EngineError where the descriptor is of no use any more."""
        try:
            fcntl.ioctl(self._descriptor, SUBMIT)
        except OSError as error:
            if error.errno != errno.ENOTTY:  # what stands for a device does not know the command
                raise EngineError(f"{self._path}: submit: {error.strerror}; the device is gone, start again") from error

    def prepare(self, weight: Rows) -> Rows:
        """Return `weight` [out, in] as it lies in the device's memory: rounded to bf16, in float32."""
        return bf16.rounded(weight)

    def linear(self, rows: Rows, weight: Rows) -> Rows:
        """Return rows @ weight.T, [rows, out], of rounded rows; see `Products.linear`."""
        return linear(bf16.rounded(rows), weight)

    def attend(self, query: Rows, keys: Rows, values: Rows, start: int) -> Rows:
        """Return causal attention [rows, NKV, G, D], all inputs of its products rounded; see `Products.attend`."""
        return attend(query, keys, values, start, self.key_multiple, bf16.rounded)


def is_accelerator(found: os.stat_result) -> bool:
    """Whether a path stands for a character device of the accel major."""
    return stat.S_ISCHR(found.st_mode) and os.major(found.st_rdev) == ACCEL_MAJOR
