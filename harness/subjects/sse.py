"""Server-sent events out of bytes as they arrive. It knows no event's meaning.

Source: the WHATWG HTML standard, section 9.2.6. Of the fields, only `data` is kept; byte order marks are not taken off,
and a lone carriage return ends no line: no engine writes either.
"""

from __future__ import annotations

DONE = b"[DONE]"  # the closing event of the OpenAI dialect


class EventReader:
    """Collects the data of events."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    @property
    def is_inside(self) -> bool:
        """Whether something was fed that no event has closed: the stream was cut."""
        return bool(self._rest.strip() or self._data)

    def feed(self, part: bytes) -> list[bytes]:
        """Return the data of each event that `part` completes, lines joined by a newline."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        events = []
        for line in lines:
            event = self._take(line.removesuffix(b"\r"))
            if event is not None:
                events.append(event)
        return events

    def _take(self, line: bytes) -> bytes | None:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        if not self._data:
            return None
        event = b"\n".join(self._data)
        self._data = []
        return event
