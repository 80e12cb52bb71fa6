"""The relay's process: it starts the subject as its child, listens on a port of its own, and ends when the child does.

    python -I -S -c BOOT settings.json PORT -- the subject's own launch line

PORT is the relay's, 0 = it picks one. The settings (JSON): `fault` (a table of the catalogue), `dialect` and `fields` (how the subject
speaks), `ready` (a pattern with a group `port`), `own_port` (the subject picks none: it is given a free one), `with_stdout`,
`line_prefix`, `metrics`. In the launch line @PORT@ is the subject's port. SIGTERM ends the child, and so the relay, with the
child's exit status.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.mutation.relay.child import Child
from harness.mutation.relay.fault import Fault
from harness.mutation.relay.link import Between, Link
from harness.mutation.relay.llama import Llama
from harness.mutation.relay.openai import OpenAI
from harness.mutation.relay.registry import build
from harness.mutation.relay.wire import Peer, WireError

HOST = "127.0.0.1"
USAGE = 2
ENDING = (signal.SIGTERM, signal.SIGINT)
PORT = "@PORT@"
SPOKEN = {"openai": OpenAI, "llama": Llama}


def main(words: Sequence[str]) -> int:
    """Relay until the subject ends; return its exit status."""
    if len(words) < 4 or not words[1].isdigit() or words[2] != "--":
        sys.stderr.write(
            f"relay: {list(words[:3])}: want SETTINGS PORT -- COMMAND...; give the subject's launch line behind --\n"
        )
        return USAGE
    settings = json.loads(Path(words[0]).read_text(encoding="utf-8"))
    fault = fault_of(settings)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    with socket.create_server((HOST, int(words[1]))) as server:
        port = _free_port() if settings["own_port"] else 0
        command = [word.replace(PORT, str(port)) for word in words[3:]]
        child = Child(command, port, with_stdout=settings["with_stdout"])  # before any thread
        child.relay_log(settings["ready"], server.getsockname()[1], fault.begin, fault.line)
        numbers = itertools.count(1)
        between = Between(fault, lambda: _connect(child), child.drain, lambda: next(numbers), settings["metrics"])
        threading.Thread(target=_accept, args=(server, between), name="accept", daemon=True).start()
        threading.Thread(target=_await_signal, args=(child,), name="signals", daemon=True).start()
        status = child.wait()
    return status if status >= 0 else _die_alike(-status)


def fault_of(settings: Mapping[str, Any]) -> Fault:
    """Return the fault of some settings, ready to be used. Raises ValueError."""
    fault = build(settings["fault"])
    fault.speech = SPOKEN[settings["dialect"]](settings["fields"])
    fault.settings = settings
    return fault


def _accept(server: socket.socket, between: Between) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # the relay ends
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=Link(Peer(connection), between).serve, daemon=True).start()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def _connect(child: Child) -> Peer:
    if not child.port:
        raise WireError("the subject is not ready")
    connection = socket.create_connection((HOST, child.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Peer(connection)


def _await_signal(child: Child) -> None:
    """Hand the first signal that is to end the relay to the child, whose end is awaited."""
    signal.sigwait(ENDING)
    child.end()


def _die_alike(number: int) -> int:
    """End by the signal that ended the child; where that cannot be (pid 1 of a namespace), return the shell's status for it."""
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number
