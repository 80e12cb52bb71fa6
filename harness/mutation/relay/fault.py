"""What a fault may do to what passes through the relay: by default nothing. Faults are values with a memory of their own.

A hook returns None where it leaves a thing as it came; then its bytes are passed on as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.mutation.relay.said import Said
from harness.mutation.relay.speech import Record, Speech

Json = dict[str, Any]
OK = 200


@dataclass(slots=True)
class Asked:
    """One request that asks for a reply, and what is known of it until it is answered."""

    number: int  # from 1, in the order of arrival
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class When:
    """Which replies a fault is for. Every condition that is set must hold."""

    first: int = 1  # from this request on
    asks: tuple[str, ...] = ()  # fields that the request sets
    samples: bool | None = None
    drafted: bool | None = None  # something was drafted
    accepted: bool | None = None  # something was accepted
    finish: str = ""  # how it ended
    spent: bool | None = None  # its budget was spent to the last token
    least: int = 0  # so many tokens at least

    def holds(self, speech: Speech, asked: Asked) -> bool:
        """Judge a request by what it asks."""
        is_asked = asked.number >= self.first and all(asked.body.get(name) is not None for name in self.asks)
        return is_asked and self.samples in (None, speech.samples(asked.body))

    def holds_of(self, speech: Speech, asked: Asked, said: Said, record: Record | None) -> bool:
        """Judge a whole reply too. Counts that are not told are none."""
        counts = record or {"drafted": 0, "accepted": 0}
        has = {"drafted": counts["drafted"] > 0, "accepted": counts["accepted"] > 0}
        has["spent"] = said.num_tokens == speech.budget(asked.body)
        return (
            self.holds(speech, asked)
            and self.finish in ("", said.finish)
            and said.num_tokens >= self.least
            and all(getattr(self, name) in (None, value) for name, value in has.items())
        )


@dataclass(slots=True)
class Fault:
    """One fault. Its fields are its parameters; the relay sets `speech` and `settings` before it is used."""

    when: When = field(default_factory=When)
    speech: Speech = field(init=False, repr=False)
    settings: Mapping[str, Any] = field(init=False, repr=False)
    lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)

    reads_answers = False  # whether whole answers must be read, not passed on part by part
    reads_streams = False
    passes_cancel = True  # whether a client that leaves is known to the subject

    def begin(self) -> None:
        """The subject is ready, and nobody knows yet."""

    def request(self, asked: Asked) -> Json | None:
        """Return the body that the subject is to get."""
        return None

    def answer(self, asked: Asked, status: int, body: Json) -> tuple[int, Json] | None:
        """Return what the client is to get for a whole answer."""
        return None

    def event(self, asked: Asked, event: Json) -> list[Json] | None:
        """Return the events that stand for one of a stream."""
        return None

    def close(self, asked: Asked) -> list[Json]:
        """Return the events that come before a stream's end."""
        return []

    def left(self, asked: Asked, shown: str) -> None:
        """The client left in the middle of a stream that had shown this text."""

    def line(self, line: str) -> list[str] | None:
        """Return the lines that stand for one line of the log."""
        return None

    def metrics(self, totals: Mapping[str, int]) -> Mapping[str, int]:
        """Return what the counters of the process are to say."""
        return totals


class ReplyFault(Fault):
    """A fault of what a whole reply says: `change` alone."""

    __slots__ = ()
    reads_answers = True

    def answer(self, asked: Asked, status: int, body: Json) -> tuple[int, Json] | None:
        """Change the replies that it is for."""
        said = self.speech.said(body) if status == OK else None
        record = self.speech.record(body)
        if said is None or not self.when.holds_of(self.speech, asked, said, record):
            return None
        changed = self.change(said, asked, record)
        return None if changed == said else (status, self.speech.saying(body, changed))

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """Return what the reply is to say."""
        raise NotImplementedError
