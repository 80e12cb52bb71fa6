"""What a catalogue entry says: one named, plausible fault, the checks that must fail on it, and how it is activated.

Pure values. Where entries come from is catalogue.py's; whether an anchor is still there is lint.py's.
"""

from __future__ import annotations

import datetime
import enum
import hashlib
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.mutation.edits import Edit
from harness.mutation.relay.registry import build
from harness.subjects.declarations import Dialect

TEST = "test:"  # a killer of this prefix is a pytest node, run in process against the overlay
_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Kind(enum.StrEnum):
    """What public reports of real engines show, by kind; SEED is this project's own table, TOOL a fault of the harness itself."""

    KV_ROLLBACK_WRONG = "kv-rollback-wrong"
    LOGPROBS_WRONG = "logprobs-wrong-or-missing"
    SILENT_DISENGAGEMENT = "silent-disengagement"
    CONTEXT_LIMIT_OVERRUN = "context-limit-overrun"
    REQUEST_BLEEDING = "one-request-bleeding-into-another"
    PREFIX_CACHE_WITHOUT_TAPS = "prefix-cache-without-taps"
    STALE_DRAFTER_STREAM = "stale-drafter-stream"
    COUNTS_MISREPORTED = "counts-misreported"
    END_TOKEN_IN_BLOCK = "end-token-inside-a-block"  # noqa: S105  # a kind of fault, no secret
    SAMPLING_NOT_GATED = "sampling-not-gated"
    PREFIX_CACHE_LOST = "prefix-cache-lost"
    CANCEL_MISHANDLED = "cancel-mishandled"
    GRAMMAR_OUT_OF_STEP = "grammar-state-out-of-step"
    VOCABULARY_MISMATCH = "vocabulary-mismatch"
    ACCEPT_RULE_WRONG = "accept-rule-wrong"
    PENALTIES_SKIPPED = "penalties-skipped"
    STOP_CUT_IN_DRAFT = "stop-cut-inside-a-draft"
    SEED_NOT_HONOURED = "seed-not-honoured"
    GRAMMAR_MASK_SKIPPED = "grammar-mask-skipped"
    STREAM_BOUNDARY_DROPPED = "stream-boundary-dropped"
    WRONG_DEVICE = "wrong-device"
    BUDGET_MISCOUNTED = "budget-miscounted"
    K_AT_ITS_EDGES = "k-at-its-edges"
    TIE_BROKEN_DIFFERENTLY = "tie-broken-differently"
    STREAM_TAIL_LOST = "stream-tail-lost"
    PREFIX_CACHE_POISONED = "prefix-cache-poisoned"
    STREAM_DUPLICATED = "stream-duplicated"
    SEED = "seed"
    TOOL = "tool"


class Activation(enum.StrEnum):
    """How the mutated subject is started."""

    FORK = "fork"  # from a warm parent
    FRESH = "fresh"  # a new interpreter each time
    LIVE = "live"  # a switch of the subject, given in its environment


class Shows(enum.StrEnum):
    """What a subject may show, and a fault of the relay may need."""

    IDS = "ids"  # of tokens
    COUNTS = "counts"  # in each answer, of what was drafted
    PATHS = "paths"  # a log line for each request
    ROUNDS = "rounds"  # the drafts of each round
    METRICS = "metrics"  # counters of the process


class Applies(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which subjects a fault of the relay is for; an empty list asks nothing."""

    subjects: tuple[str, ...] = ()  # names or families
    dialects: tuple[Dialect, ...] = ()
    shows: tuple[Shows, ...] = ()


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault as its file states it: find and replace in one file, several edits, a patch, an environment, or a fault of the relay."""

    id: str
    title: str
    why: str
    kind: Kind
    killers: tuple[str, ...]
    file: str = ""
    find: str = ""
    replace: str | None = None
    edits: tuple[dict[str, str], ...] = ()
    patch: str = ""  # relative to the entry's own file
    env: dict[str, str] = {}
    relay: dict[str, Any] = {}  # a fault of the relay, by its name and parameters
    applies: Applies = Applies()  # of a fault of the relay
    allowed: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()  # () = those that the killers read; of a fault of the relay: parts of a plan
    activation: Activation = Activation.FORK
    died_kills: bool = False
    cpu_budget_s: float | None = None  # of one start; None = 10 x the clean run's
    wall_budget_s: float | None = None  # of one start; None = max(30 s, 20 x the clean run's)


class Acceptance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An equivalent mutant that may survive, until a date."""

    id: str
    reason: str
    expires: datetime.date


@dataclass(frozen=True, slots=True)
class Mutant:
    """An entry with its edits read and its family named."""

    entry: Entry
    family: str
    edits: tuple[Edit, ...]  # () only for a fault that lives in the environment or in the relay

    @property
    def id(self) -> str:
        """The entry's name."""
        return self.entry.id

    @property
    def check_killers(self) -> tuple[str, ...]:
        """The killers that are checks, in the entry's order."""
        return tuple(killer for killer in self.entry.killers if not killer.startswith(TEST))

    @property
    def test_killers(self) -> tuple[str, ...]:
        """The killers that are pytest nodes, without their prefix."""
        return tuple(killer.removeprefix(TEST) for killer in self.entry.killers if killer.startswith(TEST))

    @property
    def fingerprint(self) -> str:
        """A digest of the entry and its edits; a patch counts by content."""
        content = msgspec.json.encode((self.entry, [(edit.file, edit.find, edit.replace) for edit in self.edits]))
        return hashlib.sha256(content).hexdigest()[:16]


def faults_of(entry: Entry) -> list[str]:
    """Return every rule that an entry breaks, each with its key first."""
    ways = [
        bool(entry.file or entry.find or entry.replace is not None),
        *map(bool, (entry.edits, entry.patch, entry.env, entry.relay)),
    ]
    relay = _fault_of_relay(entry)
    rules = {
        f"id: {entry.id!r} is not kebab-case": _KEBAB.fullmatch(entry.id) is None,
        "title: is empty; state the fault in one sentence": not entry.title.strip(),
        "why: is empty; link a public report or name the row of the seed table": not entry.why.strip(),
        "killers: is empty; name every check that must fail": not entry.killers,
        "killers: names one twice": len(set(entry.killers)) < len(entry.killers),
        "allowed: a killer must fail, it cannot merely be allowed to": bool(set(entry.killers) & set(entry.allowed)),
        "give exactly one of file/find/replace, edits, patch, env, relay": sum(ways) != 1,
        f"relay: {relay}": bool(relay),
        "applies: is for faults of the relay; another one's subject is its folder": not entry.relay
        and entry.applies != Applies(),
        "find: is empty; a single edit needs the exact text that it replaces": ways[0] and not entry.find,
        "activation: live is a switch in env, and env needs live": bool(entry.env) != (entry.activation is Activation.LIVE),
        "a budget must be above 0": any(b is not None and b <= 0 for b in (entry.cpu_budget_s, entry.wall_budget_s)),
    }
    return [rule for rule, broken in rules.items() if broken]


def _fault_of_relay(entry: Entry) -> str:
    """Say what is wrong with the table of a relay's fault; "" if nothing is, or there is none."""
    try:
        if entry.relay:
            build(entry.relay)
    except ValueError as error:
        return str(error)
    return ""
