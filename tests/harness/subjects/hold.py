"""A harness of its own for the tests of its death: it starts a subject that leaves a daemon, says so, and waits."""

import sys
import threading
from pathlib import Path

from harness.records.plan import Request, Start
from harness.subjects.column import Launcher
from harness.subjects.description import load_description
from harness.subjects.warm import WarmLauncher


def main(kind: str, description: str, workdir: str, model: str) -> None:
    launcher = {"cold": Launcher, "warm": WarmLauncher}[kind](load_description(description), Path(workdir))
    subject = launcher.start(Start(id="s", arm="plain", model="m", requests=()), Path(model))
    answer = subject.ask(Request(id="r", checks=(), body={"act": "daemonise"}))
    assert answer.status == 200, answer
    sys.stdout.write(f"{subject.base_url}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
