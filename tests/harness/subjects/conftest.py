"""The fake engine, described, with a model folder that it opens."""

from pathlib import Path

import pytest

from harness.records.plan import Request, Start
from harness.subjects.column import Launcher
from harness.subjects.description import Description, load_description
from harness.subjects.warm import WarmLauncher
from harness.tracing.machine import Machine, probe

FAKE = Path(__file__).parent / "fake" / "fake.toml"


@pytest.fixture(scope="session")
def machine() -> Machine:
    return probe()


@pytest.fixture(scope="session")
def fake() -> Description:
    return load_description(FAKE)


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "weights").write_text("w")
    return folder


KINDS = {"cold": Launcher, "warm": WarmLauncher}
WARM = pytest.mark.parametrize("launcher", ["warm"], indirect=True)  # where the two kinds share all code


@pytest.fixture(params=list(KINDS))
def launcher(request, fake, tmp_path, machine):
    with KINDS[request.param](fake, tmp_path, machine=machine) as one:
        yield one


@pytest.fixture
def subject(launcher, model):
    return launcher.start(planned(), model)


def planned(arm: str = "plain", **parameters) -> Start:
    return Start(id=f"{arm}-start", arm=arm, model="tiny", requests=(), parameters=parameters)


def asking(act: str = "answer", request_id: str = "r", deadline_s: float = 10.0, leave_after_chunks=None, **fields) -> Request:
    return Request(
        id=request_id,
        checks=(),
        body={"act": act, **fields},
        deadline_s=deadline_s,
        leave_after_chunks=leave_after_chunks,
    )
