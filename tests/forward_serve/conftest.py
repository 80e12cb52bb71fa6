"""A copy of the golden container to damage, and models to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from forward_serve.container import Container, open_container
from tests.forward_serve.containers import unpack_tiny
from tests.forward_serve.models import grouped_container


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A copy of the golden container, to open or to damage."""
    return unpack_tiny(tmp_path / "tiny")


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Container:
    """The golden container, opened."""
    return open_container(unpack_tiny(tmp_path_factory.mktemp("golden") / "tiny"))


@pytest.fixture(scope="session")
def grouped() -> Container:
    """Random weights on grouped heads."""
    return grouped_container()


@pytest.fixture(params=["golden", "grouped"])
def container(request: pytest.FixtureRequest) -> Container:
    """Both containers in turn."""
    value = request.getfixturevalue(request.param)
    assert isinstance(value, Container)
    return value
