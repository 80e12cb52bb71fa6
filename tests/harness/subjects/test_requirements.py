"""What a subject needs of a machine."""

from __future__ import annotations

import msgspec
import pytest

from harness.errors import MachineError
from harness.subjects.description import load_description
from harness.subjects.requirements import missing, require
from harness.subjects.tables import Requirements


def needing(**requires: tuple[str, ...] | str) -> object:
    return msgspec.structs.replace(load_description("forward-serve"), requires=Requirements(**requires))  # type: ignore[arg-type]


def test_what_is_there_is_not_missed() -> None:
    require(needing(modules=("json",), programs=("sh",)))


def test_what_is_not_there_is_named_with_what_to_do() -> None:
    description = needing(modules=("json", "no_such_module"), programs=("no-such-program",), hint="buy one")
    assert missing(description) == ("the Python module no_such_module", "the program no-such-program on PATH")
    with pytest.raises(MachineError, match="needs the Python module no_such_module, the program .* on PATH; buy one"):
        require(description)
