"""Between a loop and the one way out: each token goes to `Deliver` while somebody waits for it. Knows no socket.

It raises to break a reply off before a token is counted, and answers False to end it after one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from forward_serve.errors import EngineError
from forward_serve.serving.deliver import Deliver, Part


class ClientLeftError(EngineError):
    """Nobody waits for this answer any more."""


class ServerEndingError(EngineError):
    """The server was told to end."""


class Audience(Protocol):
    """Who asked."""

    def has_left(self) -> bool:
        """Whether the client has closed its connection."""

    def hear(self, part: Part) -> None:
        """Pass on what was decided since the last call. Raises OSError when the client does not take it."""


class Outlet:
    """The `deliver` of one reply: answers whether the reply goes on."""

    def __init__(self, deliver: Deliver, audience: Audience, is_ending: Callable[[], bool]) -> None:
        self._deliver = deliver
        self._audience = audience
        self._is_ending = is_ending
        self.client_left = False  # noticed after a token: that one counts, and it is the last

    def __call__(self, token: int) -> bool:
        """Deliver one token. Raises ClientLeftError or ServerEndingError instead of taking it."""
        if self._is_ending():
            raise ServerEndingError("the server is ending; ask it again when it is back")
        if self._audience.has_left():
            raise ClientLeftError("the client has closed its connection")
        if not self._deliver(token):
            return False
        try:
            self._audience.hear(self._deliver.take())
        except OSError:
            self.client_left = True
        return not self.client_left
