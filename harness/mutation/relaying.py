"""A subject behind the relay: its description with the relay's command in front, the settings of a fault, and which faults it can have.

What the relay does is its own room's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.defaults import ROOT
from harness.mutation.entry import Mutant, Shows
from harness.mutation.relay.process import SPOKEN
from harness.mutation.world import Fitted
from harness.records.known import KnownFault
from harness.subjects.declarations import Dialect, LogStreams
from harness.subjects.description import Description

NEUTRAL: Mapping[str, Any] = {"fault": "nothing"}
CODE = (  # of the relay's process
    "harness/__init__.py",
    "harness/mutation/__init__.py",
    "harness/mutation/relay",
    "harness/subjects/__init__.py",
    "harness/subjects/enclosure.py",
)
PORT = "@PORT@"  # what stands for the subject's own port in a launch line, until the relay fills it in
_BOOT = "import sys; sys.path.insert(0, {root!r}); from harness.mutation.relay.process import main; sys.exit(main(sys.argv[1:]))"


def relayed(description: Description, settings: Path, root: Path = ROOT) -> Description:
    """Return the description of the same subject, started by a relay with these settings. `root` is where its code lies.

    The relay listens where the subject would have, on the port that it is given or on one that it picks; the subject is given another
    one, or picks. Nothing is handed over.
    """
    boot = _BOOT.format(root=str(root))
    relay = ("{python}", "-I", "-S", "-B", "-c", _literal(boot), _literal(str(settings)), "{port}", "--")
    launch = description.launch
    launch = msgspec.structs.replace(
        launch,
        command=(*relay, *_with_own_port(launch.command)),
        bit_comparable=_with_own_port(launch.bit_comparable),
        options={name: _with_own_port(words) for name, words in launch.options.items()},
        hands_over_socket=False,
        is_wrapper=True,
    )
    arms = {name: msgspec.structs.replace(arm, flags=_with_own_port(arm.flags)) for name, arm in description.arms.items()}
    return msgspec.structs.replace(description, launch=launch, arms=arms, warm=None)


def copy_code(target: Path) -> Path:
    """Copy what the relay's process imports into `target`, so that no edit reaches a run that has begun; return `target`."""
    for name in CODE:
        source = ROOT / name
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target / name)
    return target


def _with_own_port(words: Sequence[str]) -> tuple[str, ...]:
    """Return words in which the relay puts the port that the subject is to have."""
    return tuple(word.replace("{port}", PORT) for word in words)


def settings_of(description: Description, fault: Mapping[str, Any]) -> bytes:
    """Return what the relay must know: the fault, and how this subject speaks."""
    speech, counts = description.dialect, description.counts
    metrics = counts.metrics
    counters = {} if metrics is None else msgspec.structs.asdict(metrics)
    settings = {
        "fault": dict(fault),
        "dialect": speech.name.value,
        "fields": {
            "completions": speech.completions,
            "chat": speech.chat,
            "ids_field": speech.ids_field,
            "stop_reason_field": speech.stop_reason_field,
            "cached_field": speech.cached_field,
            "usage_field": counts.usage_field,
        },
        "ready": description.ready.line,
        "own_port": description.launch.needs_port,
        "with_stdout": description.ready.log is LogStreams.BOTH,
        "line_prefix": counts.line_prefix,
        "metrics": metrics and {"path": counters.pop("path"), "counters": {key: name for key, name in counters.items() if name}},
    }
    return json.dumps(settings, indent=1).encode()


def reduced(description: Description, parts: Collection[str]) -> Description:
    """Return the description with one arm for each of these parts of a plan, the first that plays it, and its known faults there."""
    players = {part: played[0] for part in parts if (played := description.arms_of(part))}
    arms = {name: arm for name, arm in description.arms.items() if name in players.values()}
    faults = tuple(fault for one in description.known_faults if (fault := _kept(one, arms)) is not None)
    return msgspec.structs.replace(description, arms=arms, known_faults=faults)


def fit(mutants: Sequence[Mutant], description: Description, not_tested: Mapping[str, str]) -> Fitted:
    """Return the faults that this subject can have, on its own arms, and why it cannot have the others.

    `not_tested`: the checks that it cannot show, and why; a fault that needs one as its killer is none of this subject's.
    """
    whys = {mutant.id: why for mutant in mutants if (why := _why_not(mutant, description) or _unshown(mutant, not_tested))}
    kept = tuple(_on_its_arms(mutant, description) for mutant in mutants if mutant.id not in whys)
    return Fitted(kept, whys)


def _why_not(mutant: Mutant, description: Description) -> str:
    applies, speech = mutant.entry.applies, description.dialect
    if speech.name.value not in SPOKEN:
        return f"the relay does not speak {speech.name.value}"
    if applies.subjects and not {description.name, description.family} & set(applies.subjects):
        return f"it is for {', '.join(applies.subjects)}"
    if applies.dialects and speech.name not in applies.dialects:
        return f"it is for the dialect {', '.join(applies.dialects)}"
    has = {
        Shows.IDS: bool(speech.ids_field),
        Shows.COUNTS: bool(description.counts.usage_field) or speech.name is Dialect.LLAMA,
        Shows.PATHS: bool(description.counts.line_prefix),
        Shows.ROUNDS: bool(description.counts.rounds_field),
        Shows.METRICS: description.counts.metrics is not None,
    }
    lacking = [each.value for each in applies.shows if not has[each]]
    if lacking:
        return f"it needs {', '.join(lacking)}, which the subject does not show"
    missing = [part for part in mutant.entry.arms if not description.arms_of(part)]
    return f"no arm plays {', '.join(missing)}" if missing else ""


def _unshown(mutant: Mutant, not_tested: Mapping[str, str]) -> str:
    return "; ".join(f"{name} is not tested: {not_tested[name]}" for name in mutant.check_killers if name in not_tested)


def _on_its_arms(mutant: Mutant, description: Description) -> Mutant:
    arms = tuple(arm for part in mutant.entry.arms for arm in description.arms_of(part))
    return Mutant(msgspec.structs.replace(mutant.entry, arms=arms), mutant.family, mutant.edits)


def _kept(fault: KnownFault, arms: Collection[str]) -> KnownFault | None:
    on = tuple(arm for arm in fault.arms if arm in arms)
    at_times = tuple(arm for arm in fault.at_times if arm in arms)
    return msgspec.structs.replace(fault, arms=on, at_times=at_times) if on or at_times else None


def _literal(word: str) -> str:
    """Return a word of a launch line in which nothing is a placeholder."""
    return word.replace("{", "{{").replace("}", "}}")
