"""Faults of streams: what of a reply is shown when, and how it is closed."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.mutation.relay.fault import Asked, Fault, Json


@dataclass(slots=True)
class StreamFault(Fault):
    """A fault of streams, with what it holds back of each."""

    held: dict[int, list[Json]] = field(init=False, default_factory=dict)  # by the number of the request

    reads_streams = True

    def close(self, asked: Asked) -> list[Json]:
        """Show what is held back."""
        return self.held.pop(asked.number, [])

    def left(self, asked: Asked, shown: str) -> None:
        """Forget what is held back."""
        self.held.pop(asked.number, None)


@dataclass(slots=True)
class LostTail(StreamFault):
    """The last text before the finish is not shown."""

    def event(self, asked: Asked, event: Json) -> list[Json] | None:
        """Show an event with text, and those behind it, when the next one with text comes; the last one's text never."""
        if not self.when.holds(self.speech, asked):
            return None
        has_text, held = bool(self.speech.delta(event)), self.held.pop(asked.number, [])
        if self.speech.finishes(event):
            return [*held, self.speech.showing(event, "")] if has_text else [*self._without_text(held), event]
        if has_text or not held:
            self.held[asked.number] = [event] if has_text else []
            return held if has_text else None
        self.held[asked.number] = [*held, event]
        return []

    def _without_text(self, held: list[Json]) -> list[Json]:
        return [self.speech.showing(one, "") if self.speech.delta(one) else one for one in held]


@dataclass(slots=True)
class DoubledChunk(StreamFault):
    """The first event with text is sent twice."""

    done: set[int] = field(init=False, default_factory=set)

    def event(self, asked: Asked, event: Json) -> list[Json] | None:
        """See Fault."""
        if asked.number in self.done or not self.speech.delta(event) or not self.when.holds(self.speech, asked):
            return None
        self.done.add(asked.number)
        return [event, event]


@dataclass(slots=True)
class HalfCharacters(StreamFault):
    """A character of several bytes is shown byte by byte, as each byte comes."""

    def event(self, asked: Asked, event: Json) -> list[Json] | None:
        """See Fault."""
        text = self.speech.delta(event) or ""
        return None if text.isascii() else [self.speech.showing(event, halved(text))]


def halved(text: str) -> str:
    """Return what a text becomes when each byte is decoded by itself."""
    return "".join(character if character.isascii() else "\ufffd" * len(character.encode()) for character in text)


@dataclass(slots=True)
class Gathered(StreamFault):
    """Nothing is shown before the reply is whole: one event says all."""

    def event(self, asked: Asked, event: Json) -> list[Json] | None:
        """Hold back what shows text, and join it with the finish."""
        if self.speech.delta(event) is None:
            return None
        held = self.held.pop(asked.number, [])
        whole = self.speech.joined(held[0], event) if held else event
        if self.speech.finishes(event):
            return [whole]
        self.held[asked.number] = [whole]
        return []


@dataclass(slots=True)
class DoubledFinish(StreamFault):
    """How the reply ended is said twice."""

    def event(self, asked: Asked, event: Json) -> list[Json] | None:
        """See Fault."""
        return [event, event] if self.speech.finishes(event) else None


@dataclass(slots=True)
class LostFinish(StreamFault):
    """How the reply ended is never said."""

    def event(self, asked: Asked, event: Json) -> list[Json] | None:
        """See Fault."""
        return [] if self.speech.finishes(event) else None


@dataclass(slots=True)
class ShownBehindFinish(StreamFault):
    """The first text comes again behind the finish."""

    def event(self, asked: Asked, event: Json) -> list[Json] | None:
        """See Fault."""
        if self.speech.finishes(event):
            return [event, *self.held.pop(asked.number, [])]
        if self.speech.delta(event):
            self.held.setdefault(asked.number, [event])
        return None

    def close(self, asked: Asked) -> list[Json]:
        """Forget the first text of a stream without a finish."""
        self.held.pop(asked.number, None)
        return []
