"""The one way out for tokens: end tokens, grammar state, stop sequences, hold-back and incremental UTF-8 of one reply.

Both loops hand every token to one `Deliver`. It does not know how a token was found, who reads the reply, nor the budget:
the budget belongs to the loop, which asks here first, so that a stop completed by the budget's last token wins.
"""

from __future__ import annotations

import codecs
import enum
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from forward_serve.errors import EngineError

if TYPE_CHECKING:
    from forward_serve.serving.logprobs import TokenLogprobs  # brings numpy, which nothing here needs

IncrementalUtf8 = codecs.getincrementaldecoder("utf-8")


class FinishReason(enum.StrEnum):
    """Why a reply ended, in the dialect's words."""

    STOP = "stop"
    LENGTH = "length"


class GrammarState(Protocol):
    """How far a reply has come in its grammar."""

    def take(self, token: int) -> bool:
        """Go on behind `token` and answer whether anything may follow."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a reply, or all of it: the lists have one length."""

    text: str
    ids: Sequence[int]
    offsets: Sequence[int] = ()  # characters of the reply's text in front of each id; a stop may cut them off later
    logprobs: Sequence[TokenLogprobs] | None = None  # None: not asked for


class Deliver:
    """One reply in the making. Call it with each token; it answers whether the reply goes on.

    `token_bytes` gives the bytes of an id. `end_tokens` end the reply and are in no text, id list or count (pass none for
    ignore_eos). The text is cut at the earliest start among the stop sequences that are complete after a token; the ids run
    up to and including the token that completed one. `grammar` takes each counted token, and ends the reply (finish "stop",
    no stop_reason) where nothing may follow, not even an end token. `logprobs` grows by one entry before each token is given.
    """

    def __init__(
        self,
        token_bytes: Callable[[int], bytes],
        end_tokens: Collection[int],
        stops: Sequence[str],
        grammar: GrammarState | None = None,
        logprobs: Sequence[TokenLogprobs] | None = None,
    ) -> None:
        self._token_bytes = token_bytes
        self._end_tokens = frozenset(end_tokens)
        self._stops = tuple(stops)
        self._grammar = grammar
        self._logprobs = logprobs
        self._utf8 = IncrementalUtf8(errors="replace")
        self._ids: list[int] = []
        self._offsets: list[int] = []  # of each id
        self._num_characters = 0  # decoded so far, whether decided or held
        self._pieces: list[str] = []  # decided text, in order
        self._held = ""  # text that could still become a stop; always a proper prefix of one
        self._num_taken_pieces = 0
        self._num_taken_ids = 0
        self.finish_reason: FinishReason | None = None
        self.stop_reason: str | int | None = None

    def __call__(self, token: int) -> bool:
        """Take the next token and answer whether the reply goes on. Raises EngineError once it has ended."""
        if self.finish_reason is not None:
            raise EngineError(f"deliver: token {token} came after the reply had ended; a loop stops at the first False")
        if token in self._end_tokens:
            self._end(FinishReason.STOP, token)
            return False
        self._ids.append(token)
        self._offsets.append(self._num_characters)
        text = self._decode(self._token_bytes(token))
        self._num_characters += len(text)
        if not self._add(text):
            return False
        if self._grammar is not None and not self._grammar.take(token):
            self._end(FinishReason.STOP, None)
            return False
        return True

    def finish(self) -> None:
        """End a reply that no token ended: its budget is spent. Flushes what was held back."""
        if self.finish_reason is None:
            self._end(FinishReason.LENGTH, None)

    def take(self) -> Part:
        """Return the text decided and the ids counted since the last call, for a stream."""
        part = self._part(self._num_taken_pieces, self._num_taken_ids)
        self._num_taken_pieces, self._num_taken_ids = len(self._pieces), len(self._ids)
        return part

    def whole(self) -> Part:
        """Return all text decided and all ids counted so far."""
        return self._part(0, 0)

    def _part(self, first_piece: int, first_id: int) -> Part:
        logprobs = None if self._logprobs is None else self._logprobs[first_id : len(self._ids)]
        return Part("".join(self._pieces[first_piece:]), self._ids[first_id:], self._offsets[first_id:], logprobs)

    @property
    def text(self) -> str:
        """The text decided so far; after the end, the reply's text."""
        return "".join(self._pieces)

    @property
    def ids(self) -> list[int]:
        """The ids counted so far, up to and including one that completed a stop, without an end token."""
        return list(self._ids)

    @property
    def num_tokens(self) -> int:
        """How many tokens count so far: `completion_tokens`."""
        return len(self._ids)

    def _decode(self, data: bytes) -> str:
        """Decode what is complete. Half a surrogate never becomes a character: the library would wait for its third byte."""
        text = self._utf8.decode(data)
        waiting = self._utf8.getstate()[0]
        if waiting[:1] == b"\xed" and waiting[1:2] >= b"\xa0":
            text += self._utf8.decode(b"", final=True)
        return text

    def _end(self, finish_reason: FinishReason, end_token: int | None) -> None:
        """Flush an incomplete character, which may still complete a stop, and close the reply."""
        if not self._add(self._utf8.decode(b"", final=True)):
            return
        self._pieces.append(self._held)
        self._held = ""
        self.finish_reason = finish_reason
        self.stop_reason = end_token

    def _add(self, text: str) -> bool:
        """Add decoded text: cut it at a complete stop (False), else decide all that can no longer become one (True)."""
        text = self._held + text
        found = min(((start, stop) for stop in self._stops if (start := text.find(stop)) >= 0), default=None)
        if found is not None:
            start, self.stop_reason = found
            self._pieces.append(text[:start])
            self._held = ""
            self.finish_reason = FinishReason.STOP
            return False
        num_decided = len(text) - self._num_undecided(text)
        self._pieces.append(text[:num_decided])
        self._held = text[num_decided:]
        return True

    def _num_undecided(self, text: str) -> int:
        """Length of the longest end of `text` that a stop begins with."""
        longest = 0
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(text)), longest, -1):
                if stop.startswith(text[len(text) - length :]):
                    longest = length
                    break
        return longest
