"""One at a time, in order of arrival: the queue in front of the engine. Knows nothing of what waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turnstile:
    """A fair lock: `threading.Lock` lets any waiter in, this one the longest waiting."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Lock] = deque()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for this caller's turn and hold it for the block."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @property
    def num_waiting(self) -> int:
        """How many callers wait for their turn."""
        with self._mutex:
            return len(self._waiting)

    def _enter(self) -> None:
        with self._mutex:
            if not self._is_taken:
                self._is_taken = True
                return
            called = threading.Lock()
            called.acquire()
            self._waiting.append(called)
        called.acquire()  # released by the caller before us, who leaves the turnstile taken

    def _leave(self) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False
