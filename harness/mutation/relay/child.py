"""The subject as the relay's child: started from its own launch line, its log passed on line by line, its end waited for.

It knows no line's meaning but the ready line's, in which the relay's port takes the place of the subject's.
"""

from __future__ import annotations

import os
import re
import select
import signal
import threading
from collections.abc import Callable, Mapping, Sequence

from harness.subjects.enclosure import die_with_parent

READ_BYTES = 1 << 16
LOG = 2  # the relay's own stderr
NOT_STARTED = 127

Lines = Callable[[str], list[str] | None]  # what stands for a line; None: itself


class Child:
    """A started subject. Make it before the first thread is started."""

    def __init__(self, argv: Sequence[str], port: int, *, with_stdout: bool) -> None:
        """Start the program. `port`: where it will listen, 0 = it says so. `with_stdout`: what it writes there is its log too."""
        self._pipe, writer = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _become(argv, writer, parent, with_stdout=with_stdout)
        os.close(writer)
        os.set_blocking(self._pipe, False)
        self._partial = b""
        self._lock = threading.Lock()
        self._is_over = False
        self.port = port  # 0 until it has said which

    def relay_log(self, pattern: str, port: int, begin: Callable[[], None], lines: Lines) -> None:
        """Pass its log on from now on: in a thread of its own, and wherever `drain` is called. Call it once.

        `begin` is called before its ready line is passed on; without a pattern at once.
        """
        self._pattern = re.compile(pattern) if pattern else None
        self._relay_port, self._begin, self._lines = port, begin, lines
        if not pattern:
            begin()
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def drain(self) -> None:
        """Pass on everything that it had written before this call."""
        with self._lock:
            self._read()

    def end(self) -> None:
        """Tell it to end."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self) -> int:
        """Wait for its end, pass on the rest of its log, and return its exit status; negative: the signal that killed it."""
        _, status = os.waitpid(self.pid, 0)
        with self._lock:
            self._read()
            if self._partial:
                self._write(self._partial)
                self._partial = b""
        return os.waitstatus_to_exitcode(status)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        while not self._is_over:
            poll.poll()
            self.drain()

    def _read(self) -> None:
        while not self._is_over:
            try:
                part = os.read(self._pipe, READ_BYTES)
            except BlockingIOError:
                return
            self._is_over = not part
            *whole, self._partial = (self._partial + part).split(b"\n")
            for line in whole:
                self._pass_on(line)

    def _pass_on(self, line: bytes) -> None:
        text = line.decode("utf-8", "surrogateescape")
        ready = self._pattern.search(text) if self._pattern else None
        if ready is not None:
            self._pattern = None
            self._begin()
            self._write(self._ready(text, ready).encode("utf-8", "surrogateescape") + b"\n")
            return
        changed = self._lines(text)
        if changed is None:
            self._write(line + b"\n")
        else:
            self._write(b"".join(f"{one}\n".encode("utf-8", "surrogateescape") for one in changed))

    def _ready(self, text: str, ready: re.Match[str]) -> str:
        """Return the ready line with the relay's port in the place of the subject's, where it names one."""
        if "port" not in ready.groupdict():
            return text
        self.port = self.port or int(ready["port"])
        first, last = ready.span("port")
        return f"{text[:first]}{self._relay_port}{text[last:]}"

    @staticmethod
    def _write(content: bytes) -> None:
        while content:
            content = content[os.write(LOG, content) :]


def _become(argv: Sequence[str], log: int, parent: int, *, with_stdout: bool) -> None:
    """In the child: lay out its log and be the program. Never returns."""
    try:
        die_with_parent()
        if os.getppid() != parent:  # it ended before
            os._exit(NOT_STARTED)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(log, 2)
        if with_stdout:
            os.dup2(log, 1)
        os.execvpe(argv[0], list(argv), _environment(os.environ))  # noqa: S606 - the subject itself
    except OSError as error:
        os.write(2, f"{argv[0]}: cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the child's environment: the relay's, without a socket that was handed to the relay."""
    return {name: value for name, value in own.items() if not name.startswith("LISTEN_")}
