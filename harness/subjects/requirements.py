"""Whether a machine has what a subject needs, before it is started: modules of our own Python, and programs on PATH."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator

from harness.errors import MachineError
from harness.subjects.description import Description


def missing(description: Description) -> tuple[str, ...]:
    """Return what is not there, in words."""
    return tuple(_missing(description))


def require(description: Description) -> None:
    """Raise MachineError where something is not there, naming it and what to do."""
    absent = missing(description)
    if absent:
        hint = description.requires.hint or "install it"
        raise MachineError(f"{description.path}: subject {description.name} needs {', '.join(absent)}; {hint}")


def _missing(description: Description) -> Iterator[str]:
    for module in description.requires.modules:
        if importlib.util.find_spec(module) is None:
            yield f"the Python module {module}"
    for program in description.requires.programs:
        if shutil.which(program) is None:
            yield f"the program {program} on PATH"
