"""Faults of what reaches the engine: a field of the request is dropped, changed, or forced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.mutation.relay.fault import Asked, Fault, Json


@dataclass(slots=True)
class DroppedFields(Fault):
    """Fields are dropped without a word."""

    fields: tuple[str, ...] = ()

    def request(self, asked: Asked) -> Json | None:
        """See Fault."""
        if not self.when.holds(self.speech, asked) or not set(self.fields) & set(asked.body):
            return None
        return {name: value for name, value in asked.body.items() if name not in self.fields}


@dataclass(slots=True)
class ForcedFields(Fault):
    """Fields have one value, whatever is asked."""

    values: dict[str, Any] = field(default_factory=dict)

    def request(self, asked: Asked) -> Json | None:
        """See Fault."""
        return forced(asked.body, self.values) if self.when.holds(self.speech, asked) else None


def forced(body: Mapping[str, Any], values: Mapping[str, Any]) -> Json | None:
    """Return a body with these values; None where it has them already."""
    changed = {**body, **values}
    return None if changed == body else changed


@dataclass(slots=True)
class MovedSeed(Fault):
    """The seed is not the one that was asked for: it goes on from request to request."""

    def request(self, asked: Asked) -> Json | None:
        """See Fault."""
        seed = asked.body.get("seed")
        if not isinstance(seed, int) or not self.when.holds(self.speech, asked):
            return None
        return {**asked.body, "seed": seed + asked.number}


@dataclass(slots=True)
class KeptRequest(Fault):
    """That a client left is not told: its request goes on to its end."""

    passes_cancel = False
