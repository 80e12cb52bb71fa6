"""The drafter that needs no model: it proposes what followed the last occurrence of the stream's own suffix.

It knows token ids and nothing else. The index holds the committed stream alone; a draft enters it when it is committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from forward_serve.decoding.interfaces import Rows
from forward_serve.decoding.silence import Silence

LONGEST_SUFFIX = 3  # tokens; a longer suffix wins over a later occurrence


class PromptLookupHead:
    """Proposes the tokens that followed the latest earlier occurrence of the last 3, else 2, else 1 tokens.

    An index of where each gram of the committed stream last ended makes an attempt cost the same however long the stream is;
    a commit costs its own rows. The index has at most three entries for each token of the stream.
    """

    name = "lookup"
    needs_hidden = False
    pays = False

    def __init__(self) -> None:
        self._stream: list[int] = []
        self._last_ends: list[dict[tuple[int, ...], int]] = [{} for _ in range(LONGEST_SUFFIX)]  # by length - 1
        self._last_word = ""

    @property
    def last_word(self) -> str:
        """Why the last attempt proposed nothing: no-match or out-of-step; "" after a proposal."""
        return self._last_word

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """Forget the former request and take this prompt as the committed stream."""
        self._stream = []
        self._last_ends = [{} for _ in range(LONGEST_SUFFIX)]
        self._last_word = ""
        self.commit_rows(prompt_ids)

    def commit_rows(self, ids: Sequence[int]) -> None:
        """Append `ids` to the committed stream and index the grams that end in them."""
        first = len(self._stream)
        self._stream.extend(ids)
        for length, last_ends in enumerate(self._last_ends, start=1):
            start = max(first - length + 1, 0)
            recent = self._stream[start:]
            grams = zip(*(recent[offset:] for offset in range(length)), strict=False)
            last_ends.update(zip(grams, range(start + length - 1, len(self._stream)), strict=False))

    def propose(self, t1: int, position: int, max_drafts: int, hidden: Rows | None) -> list[int]:  # noqa: ARG002
        """Return at most `max_drafts` tokens to follow `t1`, copied up to the end of the stream, t1 included."""
        if len(self._stream) != position:
            self._last_word = Silence.OUT_OF_STEP
            return []
        end = self._last_end_of_suffix(t1)
        if end is None:
            self._last_word = Silence.NO_MATCH
            return []
        self._last_word = ""
        drafts = self._stream[end + 1 : end + 1 + max_drafts]
        if len(drafts) < max_drafts:
            drafts.append(t1)
        return drafts

    def _last_end_of_suffix(self, t1: int) -> int | None:
        """Return where the longest known suffix of the stream and `t1` last ended in the committed stream."""
        suffix = (*self._stream[-(LONGEST_SUFFIX - 1) :], t1)
        for length in range(len(suffix), 0, -1):
            end = self._last_ends[length - 1].get(suffix[-length:])
            if end is not None:
                return end
        return None
