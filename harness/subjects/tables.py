"""Tables of a description that stand for themselves: what a machine needs, which fixtures a subject takes, where metrics are."""

from __future__ import annotations

import msgspec


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file: its keys are exactly these."""


class Requirements(Strict, frozen=True):
    """What must be on the machine before the subject can be started."""

    modules: tuple[str, ...] = ()  # importable by the harness's own Python
    programs: tuple[str, ...] = ()  # on PATH
    hint: str = ""  # what to do where one is missing


class Fixtures(Strict, frozen=True):
    """Which fabricated files it takes in place of containers and DFlash packs."""

    format: str = ""  # suffix of every model's name: "gguf"; "" = the container itself
    packs: dict[str, str] | None = None  # pack that a plan names -> what the subject is given; None = packs as they are


class MetricsSource(Strict, frozen=True):
    """Counters of the whole process that grow with each request. An empty name: it has no such counter."""

    path: str
    drafted: str
    accepted: str
    tokens: str
    rounds: str = ""
    cached: str = ""
    busy: str = ""  # a gauge: how many requests it works on, 0 when the counters stand still

    @property
    def names(self) -> tuple[str, ...]:
        """The counters that are read."""
        return tuple(name for name in (self.drafted, self.accepted, self.tokens, self.rounds, self.cached, self.busy) if name)
