"""The reference engine's command: `forward-serve -m DIR|FILE.q4nx [flags]`, or `python -m forward_serve`.

It listens at once and answers /health with 503 until the model is loaded and one pass has run. Then one line on stderr:

    [ready] port=41234 backend=host drafter=lookup k=4 width=16 alias=tiny

`port` is the real one (-p 0 lets the system pick; a socket handed over by LISTEN_FDS is used instead of -p), `drafter` is none,
lookup or dflash, `k` the most drafts of one round (0 without a drafter), `width` the rows of one pass. Where it applies,
`capped-from=K` follows k: K drafts were asked for and a pass has no room for them; `device=simulated` follows backend=npu. At the
end stand `prefix-cache=on`, with `drafts=once-per-chat` behind it where the drafter reads taps (chats begin alike, and positions
that are not run again have none), `dump-logits=on`, and `fail-pass=N`: the N-th pass after this line will fail. Each request
that takes the engine then leaves a `[spec]` line (serving/speclog.py), a failed one an `[error]` line before it.

A command line, container or draft pack that is not served is refused in one line on stderr, exit code 2; nothing listens
then. SIGTERM and Ctrl-C end the server with exit code 0.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Sequence

if "numpy" not in sys.modules:  # with two BLAS threads on a busy machine one small product can take 200 times as long
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

from forward_serve.errors import Refusal
from forward_serve.serving.app import App
from forward_serve.serving.flags import Flags, parse_flags
from forward_serve.serving.hosts import is_loopback
from forward_serve.serving.log import log_line
from forward_serve.serving.server import Server, listening_socket

EXIT_REFUSED = 2
EXIT_BROKEN = 70


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to end. Returns the exit code."""
    try:
        flags = parse_flags(sys.argv[1:] if arguments is None else arguments)
        listener = listening_socket(flags.host, flags.port, os.environ)
    except Refusal as refusal:
        log_line(str(refusal))
        return EXIT_REFUSED
    server = Server(listener, App(log_line), serves_any_host=not is_loopback(flags.host))
    server.stop_on_signals()
    threading.Thread(target=_load, args=(flags, server), daemon=True).start()
    return server.run()


def _load(flags: Flags, server: Server) -> None:
    """Load the model beside the listening loop; stop the server where it is refused."""
    try:
        from forward_serve.serving.engine import Engine  # noqa: PLC0415  (numpy: most of the start-up time)
        from forward_serve.serving.startup import load  # noqa: PLC0415

        loaded = load(flags)
        server.app.serve(Engine(loaded.served, log_line, server.app.is_ending), loaded.facts)
        log_line(f"[ready] port={server.port} {loaded.ready_facts}")
    except Refusal as refusal:
        log_line(str(refusal))
        server.stop(EXIT_REFUSED)
    except Exception:
        traceback.print_exc()
        server.stop(EXIT_BROKEN)


if __name__ == "__main__":
    sys.exit(main())
