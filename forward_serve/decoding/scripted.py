"""A base and a head without weights, for tests of whatever drives them. Shipped, so that every room tests against one.

The base's next token is a function of the tokens in its KV cache: a stale, missing or extra row changes what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from forward_serve.decoding.interfaces import Rows
from forward_serve.errors import EngineError

NextToken = Callable[[Sequence[int]], int]
Drafts = Callable[[int, int], Sequence[int]]  # (index of t1 in the stream, most drafts) -> drafts

NUM_PADDED_ROWS = 3


def saying(prompt: Sequence[int], reply: Sequence[int], otherwise: int) -> NextToken:
    """Return the script of a base that answers `prompt` with `reply`, and any other stream with `otherwise`."""
    said = [*prompt, *reply]

    def next_token(stream: Sequence[int]) -> int:
        in_script = len(prompt) <= len(stream) < len(said) and list(stream) == said[: len(stream)]
        return said[len(stream)] if in_script else otherwise

    return next_token


class ScriptedBase:
    """A `Base` that keeps its stream for a KV cache.

    Its logits rows share one buffer, which each pass overwrites; the winner ties with the highest id, and the padded rows
    above `vocab_bound` are larger than both. `fail_pass` = n: the n-th pass from now on raises after writing its first row.
    """

    def __init__(self, next_token: NextToken, vocab_bound: int, width: int = 16, keep_hidden: bool = False) -> None:
        self.vocab_bound = vocab_bound
        self.width = width
        self.stream: list[int] = []
        self.pass_sizes: list[int] = []  # rows of each completed pass
        self.fail_pass: int | None = None
        self._next_token = next_token
        self._keep_hidden = keep_hidden
        self._last_hidden: Rows | None = None
        self._logits = np.zeros((width, vocab_bound + NUM_PADDED_ROWS), np.float32)

    @property
    def num_positions(self) -> int:
        """Tokens in the stream."""
        return len(self.stream)

    @property
    def last_hidden(self) -> Rows | None:
        """The ids of the last pass as rows [rows, 1], where the base was told to keep them."""
        return self._last_hidden

    def forward(self, ids: Sequence[int]) -> Rows:
        """Append `ids` and return the logits [rows, V] after each."""
        assert 1 <= len(ids) <= self.width, f"a pass of {len(ids)} rows, width {self.width}"
        self._logits[:] = np.nan
        for index, token in enumerate(ids):
            self.stream.append(token)
            if index == 0:
                self._count_down()
            row = self._logits[index]
            row[: self.vocab_bound] = 0
            row[[self._next_token(self.stream), self.vocab_bound - 1]] = 1
            row[self.vocab_bound :] = 2
        self.pass_sizes.append(len(ids))
        self._last_hidden = np.array(ids, np.float32)[:, None] if self._keep_hidden else None
        return self._logits[: len(ids)]

    def truncate(self, num_positions: int) -> None:
        """Cut the stream."""
        assert 0 <= num_positions <= len(self.stream), f"cut to {num_positions} of {len(self.stream)} positions"
        del self.stream[num_positions:]

    def _count_down(self) -> None:
        if self.fail_pass is not None:
            self.fail_pass -= 1
            if self.fail_pass == 0:
                self.fail_pass = None
                raise EngineError("scripted base: this pass was told to fail")


class ScriptedHead:
    """A `Head` that proposes what it is told, and holds the loop to its contract: the committed stream ends where t1 stands."""

    name = "scripted"

    def __init__(self, drafts: Drafts, needs_hidden: bool = False, pays: bool = False) -> None:
        self.needs_hidden = needs_hidden
        self.pays = pays
        self.committed: list[int] = []
        self.last_word = ""
        self._drafts = drafts

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """Take the prompt as the committed stream."""
        self.committed = list(prompt_ids)

    def commit_rows(self, ids: Sequence[int]) -> None:
        """Append to the committed stream."""
        self.committed.extend(ids)

    def propose(self, t1: int, position: int, max_drafts: int, hidden: Rows | None) -> list[int]:
        """Return the script's drafts, at most `max_drafts`."""
        assert position == len(self.committed), f"asked at {position}, committed {len(self.committed)}"
        assert (hidden is not None) == self.needs_hidden, f"hidden={hidden} for needs_hidden={self.needs_hidden}"
        assert hidden is None or hidden.tolist() == [t1], f"hidden={hidden} is not the row of t1={t1}"
        drafts = list(self._drafts(position, max_drafts))[:max_drafts]
        self.last_word = "" if drafts else "nothing"
        return drafts
