"""The listening socket and its loop: bind or take over, accept, one thread a connection, end by signal. Knows no HTTP route.

The loop waits for connections and for news (a signal, a model that is loaded or refused), both by events.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import threading
from collections.abc import Mapping
from types import FrameType

from forward_serve.errors import Refusal
from forward_serve.serving.app import App
from forward_serve.serving.handler import Handler

HANDED_OVER_FD = 3  # where systemd puts the first socket
BACKLOG = 128  # connections
PATIENCE_S = 2.0  # how long requests have to end when the server does


def listening_socket(host: str, port: int, environment: Mapping[str, str]) -> socket.socket:
    """Take over the socket of a supervisor (systemd's LISTEN_FDS, meant for this process), or bind host and port.

    A taken socket stays as its owner set it up, and host and port mean nothing. Raises Refusal where neither works.
    """
    if environment.get("LISTEN_PID") == str(os.getpid()) and "LISTEN_FDS" in environment:
        return _taken_socket(environment["LISTEN_FDS"])
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise Refusal(f"--host={host}: {error.strerror}; give an address of this machine") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Refusal(f"--host={host} -p {port}: {error.strerror}; give a free port of this machine, or 0") from error
    listener.setblocking(False)
    return listener


def _taken_socket(count: str) -> socket.socket:
    if count != "1":
        raise Refusal(f"LISTEN_FDS={count}: this server takes one socket; hand over one")
    place = f"LISTEN_FDS=1: file descriptor {HANDED_OVER_FD}"
    try:
        listener = socket.socket(fileno=HANDED_OVER_FD)
    except OSError as error:
        raise Refusal(f"{place}: {error.strerror}; hand over a listening socket") from error
    is_tcp = listener.family in {socket.AF_INET, socket.AF_INET6} and listener.type == socket.SOCK_STREAM
    if not (is_tcp and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
        listener.close()
        raise Refusal(f"{place} is no listening TCP socket; hand over one")
    os.set_inheritable(HANDED_OVER_FD, False)
    return listener


class Server:
    """Serves an App's connections until it is told to stop."""

    def __init__(self, listener: socket.socket, app: App, *, serves_any_host: bool) -> None:
        self.app = app
        self.serves_any_host = serves_any_host
        self._listener = listener
        self._news, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self._status: int | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listener.getsockname()[1])

    def stop(self, status: int = 0) -> None:
        """Make `run` return this exit status, from any thread or signal handler; the first call counts."""
        if self._status is None:
            self._status = status
            with contextlib.suppress(OSError):  # the loop is over
                self._bell.send(b"!")

    def stop_on_signals(self) -> None:
        """Stop on SIGTERM and Ctrl-C; a second one ends the process at once.

        The signal itself rings the bell: one that arrives just before the loop goes to sleep would not wake it otherwise.
        """
        signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def run(self) -> int:
        """Accept connections until `stop`; then end what is running, and return the exit status."""
        with selectors.DefaultSelector() as selector, self._listener, self._news, self._bell:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._news, selectors.EVENT_READ)
            while self._status is None:
                for key, _ in selector.select():
                    if key.fileobj is self._listener:
                        self._accept()
                    else:
                        self._news.recv(64)
            self._listener.close()
            if threading.current_thread() is threading.main_thread():
                signal.set_wakeup_fd(-1)  # the bell is closed behind us
            self.app.end(PATIENCE_S)
        return self._status

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        self.stop()

    def _accept(self) -> None:
        try:
            connection, address = self._listener.accept()
        except OSError:  # it left before it was accepted
            return
        threading.Thread(target=self._serve, args=(connection, address), daemon=True).start()

    def _serve(self, connection: socket.socket, address: object) -> None:
        with connection:
            try:
                Handler(connection, address, self)  # type: ignore[arg-type]
            except OSError:  # the client left
                return
