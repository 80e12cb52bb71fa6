"""The dialects as the relay speaks them: what a body says as values, and a body that says other values. It opens nothing.

Only what faults change is known here; the rest of a body is kept as it came. Reading for the gate is harness/subjects' alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.mutation.relay.said import Said

Scores = dict[str, Any]  # of one token
Record = dict[str, Any]  # counts of one request by their names in the `[spec]` line, as far as a dialect tells them


class Speech:
    """One dialect. Bodies are JSON objects; what is returned is always another object than what was given."""

    logprob = ""  # the token's own logprob among its scores
    of_row: tuple[str, ...] = ()  # the scores that come from a row of logits; the others name the token

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields  # names of a description's dialect and counts

    def generates(self, path: str) -> bool:
        """Whether a request to this path asks for a reply."""
        raise NotImplementedError

    def budget(self, asked: Mapping[str, Any]) -> int | None:
        """Return the most tokens that a request allows, where it says so."""
        raise NotImplementedError

    def said(self, body: Mapping[str, Any]) -> Said | None:
        """Return what a whole reply says; None for a body that is no reply."""
        raise NotImplementedError

    def saying(self, body: Mapping[str, Any], said: Said) -> dict[str, Any]:
        """Return the body with another reply in it: ids, text, how it ended, and the number of its tokens."""
        raise NotImplementedError

    def record(self, body: Mapping[str, Any]) -> Record | None:
        """Return the counts that a whole reply, or a stream's event, holds."""
        raise NotImplementedError

    def recording(self, body: Mapping[str, Any], record: Record) -> dict[str, Any]:
        """Return the body with other counts in it; one that holds none stays without."""
        raise NotImplementedError

    def prompt_tokens_key(self) -> tuple[str, ...]:
        """Return where a body says how long the prompt was, key by key."""
        raise NotImplementedError

    def delta(self, event: Mapping[str, Any]) -> str | None:
        """Return the text that a stream's event shows; None for one that can show none."""
        raise NotImplementedError

    def showing(self, event: Mapping[str, Any], text: str) -> dict[str, Any]:
        """Return the event with another text; its ids stay."""
        raise NotImplementedError

    def joined(self, event: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        """Return one event that shows what two show one after the other, and else says what the later one says."""
        raise NotImplementedError

    def finishes(self, event: Mapping[str, Any]) -> bool:
        """Whether a stream's event says how the reply ended."""
        raise NotImplementedError

    def scores(self, body: Mapping[str, Any]) -> list[Scores] | None:
        """Return what a body says of the scores of each token, by name; None where it says nothing."""
        raise NotImplementedError

    def scoring(self, body: Mapping[str, Any], scores: Sequence[Scores] | None) -> dict[str, Any]:
        """Return the body with other scores; None: without any."""
        raise NotImplementedError

    def empty(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return a reply of no token, as if the request had been served."""
        raise NotImplementedError

    @staticmethod
    def samples(asked: Mapping[str, Any]) -> bool:
        """Whether a request asks for sampling."""
        return bool(asked.get("temperature", 1.0) != 0)

    @staticmethod
    def stops(asked: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the stop sequences of a request."""
        stop = asked.get("stop") or ()
        return (stop,) if isinstance(stop, str) else tuple(stop)
