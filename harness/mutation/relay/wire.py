"""HTTP/1.1 messages as bytes: heads, the three ways a body is framed, and parts as they arrive. It knows no route and no fault."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

READ_BYTES = 1 << 16
MAX_HEAD_BYTES = 1 << 16
END_OF_HEAD = b"\r\n\r\n"
BODYLESS = (204, 304)


class WireError(Exception):
    """The other side broke off, or what it sent is no HTTP/1.1 message."""


class ClientLeftError(Exception):
    """The client closed its connection while its answer was awaited."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the header lines of a message, as they came."""

    raw: bytes

    @property
    def first(self) -> list[str]:
        """The three words of the first line; fewer where it is broken."""
        return self.raw.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)

    @property
    def headers(self) -> Mapping[str, str]:
        """Header values by lower-case name; of several of one name the last."""
        lines = self.raw.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines if line)
        return {name.strip().lower(): value.strip() for name, _, value in pairs}

    @property
    def status(self) -> int:
        """The status of an answer. Raises WireError where there is none."""
        words = self.first
        if len(words) < 2 or not words[1].isdigit():
            raise WireError(f"no status line: {self.raw[:80]!r}")
        return int(words[1])

    @property
    def is_stream(self) -> bool:
        """Whether the body is one of server-sent events."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def with_length(self, length: int, status: int | None = None) -> Head:
        """Return the head of a body of this many bytes, and of another status where one is given."""
        first, *lines = self.raw.removesuffix(END_OF_HEAD).split(b"\r\n")
        if status is not None and status != self.status:
            first = b" ".join((first.split(b" ", 1)[0], str(status).encode(), b"Changed"))
        framing = (b"content-length", b"transfer-encoding")
        kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in framing]
        return Head(b"\r\n".join((first, *kept, b"Content-Length: %d" % length)) + END_OF_HEAD)


class Body:
    """A body's framing, fed part by part."""

    is_done = False

    def take(self, part: bytes) -> tuple[bytes, bytes]:
        """Return (the content that `part` adds, what of it belongs to the next message)."""
        raise NotImplementedError

    def end(self) -> None:
        """Take the end of the connection. Raises WireError where the body is not over."""
        if not self.is_done:
            raise WireError("the connection ended inside a body")


class Sized(Body):
    """A body of a known length."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_done = length == 0

    def take(self, part: bytes) -> tuple[bytes, bytes]:
        """Take up to the length."""
        content, rest = part[: self._left], part[self._left :]
        self._left -= len(content)
        self.is_done = self._left == 0
        return content, rest


class UntilClose(Body):
    """A body that lasts as long as its connection."""

    def take(self, part: bytes) -> tuple[bytes, bytes]:
        """Take everything."""
        return part, b""

    def end(self) -> None:
        """Be over."""
        self.is_done = True


class Chunked(Body):
    """A body in chunks, each behind its own length; its trailer is dropped from the content."""

    def __init__(self) -> None:
        self._buffer = b""
        self._left = 0  # bytes of the chunk that is being read, its line end included
        self._is_trailer = False

    def take(self, part: bytes) -> tuple[bytes, bytes]:
        """Take whole lines and as much of a chunk as is there."""
        self._buffer += part
        content = bytearray()
        while not self.is_done:
            if self._left:
                taken = self._buffer[: self._left]
                content += taken[: max(0, self._left - 2)]
                self._buffer = self._buffer[len(taken) :]
                self._left -= len(taken)
                if self._left:
                    return bytes(content), b""
                continue
            line, separator, rest = self._buffer.partition(b"\r\n")
            if not separator:
                return bytes(content), b""
            self._buffer = rest
            self._line(line)
        rest, self._buffer = self._buffer, b""
        return bytes(content), rest

    def _line(self, line: bytes) -> None:
        if self._is_trailer:
            self.is_done = not line
            return
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError as error:
            raise WireError(f"no chunk length: {line[:40]!r}") from error
        self._is_trailer = size == 0
        self._left = size + 2 if size else 0


def chunk(content: bytes) -> bytes:
    """Return content as one chunk; none of it is the closing one."""
    return b"%x\r\n%s\r\n" % (len(content), content)


CLOSING_CHUNK = b"0\r\n\r\n"


def body_of_request(head: Head) -> Body:
    """Return how a request's body is framed; one without a length has none. Raises WireError."""
    headers = head.headers
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return Chunked()
    return Sized(_length(headers.get("content-length", "0")))


def body_of_answer(head: Head) -> Body:
    """Return how an answer's body is framed. Raises WireError."""
    headers = head.headers
    if head.status < 200 or head.status in BODYLESS:
        return Sized(0)
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return Chunked()
    return Sized(_length(headers["content-length"])) if "content-length" in headers else UntilClose()


def _length(value: str) -> int:
    if not value.isdigit():
        raise WireError(f"Content-Length {value!r} is no number")
    return int(value)


class Peer:
    """One side of the relay: a socket and what was read of it ahead of its message."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._rest = b""

    def send(self, content: bytes) -> None:
        """Send all. Raises OSError."""
        self.socket.sendall(content)

    def head(self, watched: Peer | None = None) -> Head | None:
        """Read a head; None where the connection ends before one. Raises WireError, ClientLeftError."""
        while END_OF_HEAD not in self._rest:
            if len(self._rest) > MAX_HEAD_BYTES:
                raise WireError(f"a head is over {MAX_HEAD_BYTES} bytes")
            part = self._read(watched)
            if not part:
                if self._rest.strip():
                    raise WireError("the connection ended inside a head")
                return None
            self._rest += part
        raw, _, self._rest = self._rest.partition(END_OF_HEAD)
        return Head(raw + END_OF_HEAD)

    def parts(self, body: Body, watched: Peer | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield (bytes as they came, content of the body) as they arrive. Raises WireError, ClientLeftError."""
        while not body.is_done:
            part = self._rest or self._read(watched)
            self._rest = b""
            if not part:
                body.end()
                return
            content, self._rest = body.take(part)
            yield part[: len(part) - len(self._rest)], content

    @property
    def has_more(self) -> bool:
        """Whether bytes of the next message were read already."""
        return bool(self._rest)

    def close(self) -> None:
        """Close the connection for real, so that the other side sees it at once."""
        with suppress(OSError):  # closed already
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _read(self, watched: Peer | None) -> bytes:
        """Wait for bytes and return them, b"" at the end. Raises ClientLeftError once `watched` closes, WireError for a reset."""
        if watched is not None:
            ready = _events({self.socket: select.POLLIN, watched.socket: select.POLLRDHUP}, None)
            if self.socket not in ready:
                raise ClientLeftError
        try:
            return self.socket.recv(READ_BYTES)
        except OSError as error:
            raise WireError(str(error)) from error


def next_to_act(client: Peer, subject: Peer | None) -> bool:
    """Wait between two requests; True once the client sends or closes, False once the subject closes."""
    if client.has_more or subject is None:
        return True
    return client.socket in _events({client.socket: select.POLLIN, subject.socket: select.POLLRDHUP}, None)


def _events(wanted: Mapping[socket.socket, int], timeout_ms: int | None) -> set[socket.socket]:
    """Return the sockets on which something happened; errors and hang-ups always count."""
    poll = select.poll()
    by_number = {}
    for one, events in wanted.items():
        poll.register(one, events)
        by_number[one.fileno()] = one
    return {by_number[number] for number, _ in poll.poll(timeout_ms)}
