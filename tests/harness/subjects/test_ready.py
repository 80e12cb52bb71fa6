"""How a subject gets its port and is found to be ready: by its line, or by its answers where it says nothing."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest

from harness.subjects.column import HOST, Launcher, NeverReadyError, free_port
from harness.subjects.description import Description
from harness.subjects.tables import Launch, Ready
from harness.tracing.machine import Machine

from .conftest import asking, planned


def told(fake: Description, **ready: object) -> Description:
    """The fake engine, given a port, as one that does not say which it has."""
    launch = msgspec.structs.replace(fake.launch, hands_over_socket=False, needs_port=True)
    return msgspec.structs.replace(fake, launch=launch, ready=msgspec.structs.replace(fake.ready, **ready))


@pytest.mark.parametrize("line", ["^\\[ready\\]", ""], ids=["by a line without a port", "without a line"])
def test_a_subject_is_given_a_free_port_and_asked_there(
    line: str, fake: Description, model: Path, tmp_path: Path, machine: Machine
) -> None:
    with Launcher(told(fake, line=line), tmp_path, machine=machine) as launcher:
        subject = launcher.start(planned(), model)
        assert subject.ask(asking()).status == 200
        assert subject.base_url.startswith(f"http://{HOST}:")
        assert subject.ready_line.startswith("[ready]") == bool(line)


@pytest.mark.parametrize("arm", ["unhealthy", "never-ready"])
def test_a_subject_without_a_line_that_never_answers_200_is_never_ready(
    arm: str, fake: Description, model: Path, tmp_path: Path, machine: Machine
) -> None:
    silent = told(fake, line="", timeout_s=0.5)
    never = pytest.raises(NeverReadyError, match=r"was not ready in 0\.5 s")
    with Launcher(silent, tmp_path, machine=machine) as launcher, never:
        launcher.start(planned(arm), model)


def test_a_subject_without_a_line_that_ends_is_not_waited_for(
    fake: Description, model: Path, tmp_path: Path, machine: Machine
) -> None:
    with Launcher(told(fake, line="", timeout_s=60), tmp_path, machine=machine) as launcher:
        with pytest.raises(NeverReadyError, match="ended before it was ready, with status 2"):
            launcher.start(planned(refuse="no"), model)
        assert launcher.refused(planned(refuse="no"), model).exit_status == 2


def test_a_free_port_is_nobodys() -> None:
    with socket.create_server((HOST, free_port())) as listener:
        assert listener.getsockname()[1] > 0


def test_tables_stand_for_themselves() -> None:
    assert (Launch(command=()).needs_port, Ready(probe="/health").line) == (False, "")
