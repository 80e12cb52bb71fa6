"""From a description and a planned start to the one command, environment and folders of a process. Pure; starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.records.plan import Start
from harness.subjects.description import BUILT_IN, Description, placeholders
from harness.subjects.device import GivenDevice, given_device
from harness.subjects.tables import Arm


@dataclass(frozen=True, slots=True)
class Places:
    """What the launcher knows when it starts a subject."""

    python: str  # absolute: a shim in its place starts dozens of processes
    model: Path
    pack: Path | None
    scratch: Path  # the working folder of this start
    port: int = 0  # 0 = the system picks
    overlay: Path | None = None  # replaces the source root
    program: str = ""  # absolute path of the first program that the description requires
    device: GivenDevice | None = None  # of an arm that has one; None: a node of its own


@dataclass(frozen=True, slots=True)
class Command:
    """One process: argv with an absolute program, its whole environment, and what of it must be told apart."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    path_entries: tuple[str, ...]  # the mutated or the original source tree, first on sys.path
    device: str  # the node to make for it alone; "" = none


def render(description: Description, start: Start, places: Places, inherited: Mapping[str, str]) -> Command:
    """Fill the launch line of `start.arm`. `inherited` is our own environment.

    Raises UsageError for an unknown arm, a parameter that is missing, or one that no flag of the arm takes.
    """
    arm = _arm(description, start.arm)
    words = (*description.launch.command, *description.launch.bit_comparable, *arm.flags)
    for parameter, option in (description.launch.options | arm.options).items():
        if parameter in start.parameters:
            words = (*words, *option)
    device = places.device or given_device(arm.device, is_real=arm.real_device)
    values = _values(start, places, device)
    used = placeholders(words)
    unspoken = tuple(name for name, option in arm.options.items() if not option and name in start.parameters)
    _check_parameters(description, start, (*used, *unspoken), values)
    entries = _path_entries(description, places.overlay)
    return Command(
        argv=tuple(word.format_map(values) for word in words),
        environment=_environment(description, inherited, entries),
        path_entries=entries,
        device=device.node if device else "",
    )


def warm_environment(description: Description, inherited: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment of a warm parent: the subject's, without a source tree on its path."""
    return _environment(description, inherited, ())


def _arm(description: Description, name: str) -> Arm:
    if name not in description.arms:
        raise UsageError(
            f"{description.path}: arm {name!r} is not described; use one of {', '.join(description.arms)}",
        )
    return description.arms[name]


def _values(start: Start, places: Places, device: GivenDevice | None) -> dict[str, str]:
    values = {name: str(value) for name, value in start.parameters.items()}
    values |= {
        "python": places.python,
        "model": str(places.model),
        "port": str(places.port),
        "scratch": str(places.scratch),
    }
    if places.program:
        values["program"] = places.program
    if places.pack is not None:
        values["pack"] = str(places.pack)
    if device is not None:
        values["device"] = device.path
    return values


def _check_parameters(description: Description, start: Start, used: tuple[str, ...], values: dict[str, str]) -> None:
    place = f"{description.path}: arm {start.arm!r} of start {start.id!r}"
    for name in used:
        if name not in values:
            where = "give a pack directory" if name == "pack" else "give it in the start's parameters"
            raise UsageError(f"{place}: placeholder {{{name}}} has no value; {where}")
    for name in start.parameters:
        if name in BUILT_IN:
            raise UsageError(f"{place}: parameter {name!r} is filled by the launcher; leave it out")
        if name not in used:
            takes = ", ".join(sorted(set(used) - BUILT_IN)) or "none"
            raise UsageError(f"{place}: no flag takes parameter {name!r}; this line takes {takes}")


def _path_entries(description: Description, overlay: Path | None) -> tuple[str, ...]:
    root = description.source_root
    if root is None or description.source is None:
        if overlay is not None:
            raise UsageError(f"{description.path}: overlay {overlay}: no source tree is declared; add [source]")
        return ()
    if overlay is None:
        return (str(root),)
    for package in description.source.packages:
        if not (overlay / package / "__init__.py").is_file():
            raise UsageError(f"{overlay}: package {package!r} is missing; an overlay holds each declared package whole")
    return (str(overlay),)


def _environment(description: Description, inherited: Mapping[str, str], entries: tuple[str, ...]) -> dict[str, str]:
    names = (name for name in description.environment.allow if name in inherited)
    environment = {name: inherited[name] for name in names} | description.environment.values
    if entries:
        environment["PYTHONPATH"] = ":".join(entries)
    return environment
