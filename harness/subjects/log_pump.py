"""The subject's log, line by line, as it is written to a pipe. It knows no line's meaning.

A thread waits for the pipe and for the subject's end. `drain` takes what is in the pipe at once: both read under one lock,
so that after an answer everything that was written before it is here without waiting.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

READ_BYTES = 1 << 16
PIPE_BYTES = 1 << 20  # more than a pipe holds unless a subject enlarges it
MAX_LINE_BYTES = 1 << 20  # a longer one is cut into several
MAX_LOG_BYTES = 64 << 20


class LogPump:
    """Reads `pipe`; `pidfd` tells when the subject has ended. Both stay the caller's to close, after `stop`."""

    def __init__(self, pipe: int, pidfd: int) -> None:
        self._pipe = pipe
        self._pidfd = pidfd
        self._lines: list[str] = []
        self._partial = b""
        self._num_bytes = 0
        self._is_over = False  # end of file: nobody holds the pipe any more
        self._has_ended = False
        self._changed = threading.Condition()
        self._stop_reader, self._stop_writer = os.pipe()
        os.set_blocking(pipe, False)
        self._thread = threading.Thread(target=self._run, name="log-pump", daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether the subject has ended."""
        with self._changed:
            return self._has_ended

    def lines(self) -> tuple[str, ...]:
        """Return all lines so far, and the begun one."""
        with self._changed:
            begun = (_text(self._partial),) if self._partial else ()
            return (*self._lines, *begun)

    @property
    def num_lines(self) -> int:
        """How many whole lines there are."""
        with self._changed:
            return len(self._lines)

    def drain(self) -> None:
        """Take everything that was written to the pipe before this call."""
        with self._changed:
            self._read(PIPE_BYTES)

    def wait_for(self, found: Callable[[list[str]], bool], first: int, deadline: float) -> bool:
        """Wait until `found` holds of the whole lines from number `first` on; False when the subject ends or time is up.

        `deadline` is on the monotonic clock.
        """
        with self._changed:
            self._read(PIPE_BYTES)
            while not found(self._lines[first:]):
                remaining = deadline - time.monotonic()
                if self._has_ended or remaining <= 0:
                    return False
                self._changed.wait(remaining)
            return True

    def stop(self) -> None:
        """Take the rest and end the thread. Call it once, after the subject's end."""
        os.close(self._stop_writer)
        self._thread.join()
        os.close(self._stop_reader)
        self.drain()

    def _run(self) -> None:
        poll = select.poll()
        for descriptor in (self._pipe, self._pidfd, self._stop_reader):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._stop_reader in ready:
                return
            with self._changed:
                if self._pipe in ready:
                    self._read(READ_BYTES)
                    if self._is_over:
                        poll.unregister(self._pipe)
                if self._pidfd in ready:
                    self._read(PIPE_BYTES)
                    self._has_ended = True
                    poll.unregister(self._pidfd)
                self._changed.notify_all()

    def _read(self, max_bytes: int) -> None:
        """Read until the pipe is empty, at most `max_bytes`: a subject that never stops writing holds nobody up."""
        while max_bytes > 0 and not self._is_over:
            try:
                part = os.read(self._pipe, READ_BYTES)
            except BlockingIOError:
                return
            max_bytes -= len(part)
            self._is_over = not part
            self._take(part)

    def _take(self, part: bytes) -> None:
        if self._num_bytes > MAX_LOG_BYTES:
            return
        self._num_bytes += len(part)
        *whole, self._partial = (self._partial + part).split(b"\n")
        if len(self._partial) > MAX_LINE_BYTES:
            whole.append(self._partial)
            self._partial = b""
        self._lines += [_text(line) for line in whole]
        if self._num_bytes > MAX_LOG_BYTES:
            self._lines.append(f"(the log is cut here: more than {MAX_LOG_BYTES >> 20} MiB)")
            self._partial = b""
        self._changed.notify_all()


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
