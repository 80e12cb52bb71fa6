"""Whether a machine has what a subject needs, item by item: modules of our own Python, programs, devices, memory, room on disk.

It starts nothing and opens no device: whether a program works is seen when it is started.
"""

from __future__ import annotations

import glob
import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil

from harness.errors import MachineError
from harness.records.checkup import Item, State
from harness.subjects.description import Description

MIB = 1 << 20
FORMAT_MODULES = {"gguf": "gguf"}  # what makes a twin in a format


def examined(description: Description, disk: Path | None = None) -> Iterator[Item]:
    """Yield what the subject needs and whether it is there. `disk`: where fixtures are kept; None leaves room on disk out."""
    needs = description.requires
    fix = needs.hint or "install it"
    made_by = FORMAT_MODULES.get(description.fixtures.format)
    for module in dict.fromkeys((*needs.modules, *((made_by,) if made_by else ()))):
        yield _item(f"the Python module {module}", _version(module), fix)
    for program in needs.programs:
        yield _item(f"the program {program} on PATH", shutil.which(program), fix)
    for device in _devices(description):
        yield _item(f"the device {device}", next(iter(sorted(glob.glob(device))), None), fix)  # noqa: PTH207 - absolute
    if needs.memory_mib:
        yield _enough(
            "memory", psutil.virtual_memory().available // MIB, needs.memory_mib, "end what else runs, or take a larger machine"
        )
    if needs.disk_mib and disk is not None:
        yield _enough(f"room at {disk}", free_mib(disk), needs.disk_mib, "set DRAFTPROOF_CACHE to a folder with more room")


def missing(description: Description, disk: Path | None = None) -> tuple[str, ...]:
    """Return what is not there, in words."""
    return tuple(item.what for item in examined(description, disk) if item.state is State.MISSING)


def require(description: Description, disk: Path | None = None) -> None:
    """Raise MachineError where something is not there, naming it and what to do."""
    absent = missing(description, disk)
    if absent:
        hint = description.requires.hint or "install it"
        raise MachineError(
            f"{description.path}: subject {description.name} needs {', '.join(absent)}; {hint}; "
            f"`draftproof doctor --subject {description.name}` looks again"
        )


def free_mib(folder: Path) -> int:
    """Return the MiB that are free where a folder is, or would be made."""
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.is_dir())
    return shutil.disk_usage(there).free // MIB


def _devices(description: Description) -> tuple[str, ...]:
    """Return the devices that it needs: those of the whole subject, and those that an arm opens as they are."""
    of_arms = (glob.escape(arm.device) for arm in description.arms.values() if arm.real_device)
    return tuple(dict.fromkeys((*description.requires.devices, *of_arms)))


def _version(module: str) -> str | None:
    """Return where a module would be imported from; None where it is not there. It is not imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin or "a namespace package"


def _item(what: str, seen: str | None, fix: str) -> Item:
    return Item(what, State.THERE, seen) if seen else Item(what, State.MISSING, "not found", fix)


def _enough(what: str, has_mib: int, needs_mib: int, fix: str) -> Item:
    state = State.THERE if has_mib >= needs_mib else State.MISSING
    return Item(f"{needs_mib} MiB of {what}", state, f"{has_mib} MiB free", "" if state is State.THERE else fix)
