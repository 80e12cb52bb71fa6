"""The decoding loop: it finds the tokens of a reply, plain or with a head's drafts verified, and hands each to `deliver`.

It does not know what a token means: end tokens, stops, text and streaming are deliver's. A head changes how tokens are found
and never which: a draft is kept only where it equals the base's own greedy choice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from forward_serve.decoding.fallback import SpecFallback
from forward_serve.decoding.greedy import bounded_argmax
from forward_serve.decoding.interfaces import Base, Head, Rows
from forward_serve.decoding.options import Options, Row
from forward_serve.decoding.stats import Stats
from forward_serve.errors import EngineError

__all__ = ["Options", "Stats", "prefill", "run", "run_from"]

Clock = Callable[[], float]


def run(
    base: Base,
    head: Head | None,
    prompt: Sequence[int],
    options: Options,
    stats: Stats | None = None,
    clock: Clock = time.perf_counter,
) -> Stats:
    """Decode one reply to `prompt` on an empty base: begin the head, prefill token by token, then `run_from`.

    Counts go into `stats` while they happen, so that they can be read when the reply is broken off by an exception. Raises
    EngineError for an empty prompt, a base without vocabulary and a base that already holds positions.
    """
    stats = Stats() if stats is None else stats
    if not prompt:
        raise EngineError("run: the prompt is empty; give at least one token")
    _refuse_no_vocabulary(base)
    if base.num_positions:
        raise EngineError(f"run: the base holds {base.num_positions} positions, not 0; truncate it, or use run_from")
    if head is not None:
        head.begin(prompt)
    started = clock()
    try:
        logits = prefill(base, prompt)
    finally:
        stats.prefill_seconds += clock() - started
    return run_from(base, head, len(prompt), logits, options, stats, clock)


def prefill(base: Base, ids: Sequence[int]) -> Row:
    """Run `ids` (at least one) through the base one token a pass and return the logits [V] after the last of them.

    If a pass fails, the base keeps exactly the tokens whose passes completed.
    """
    for token in ids:
        logits: Row = _forward(base, [token], base.num_positions)[-1]
    return logits


def run_from(
    base: Base,
    head: Head | None,
    pos: int,
    logits: Row,
    options: Options,
    stats: Stats | None = None,
    clock: Clock = time.perf_counter,
) -> Stats:
    """Decode one reply on a base that has run its prompt: `pos` positions, `logits` [V] after the last of them.

    The head must have begun with the whole prompt, before the prefill (a draft head reads rows that the prefill leaves). Every
    token goes to `options.deliver`. An exception of the base, the head or deliver passes through: the base then holds exactly the
    delivered rows that were run, `stats` what was counted; the head begins anew. Raises EngineError for pos 0, a pos that is
    not the base's own, a base without vocabulary, a head that needs hidden rows on a base that keeps none, and a head beside
    `options.choose`.
    """
    stats = Stats() if stats is None else stats
    _refuse_no_vocabulary(base)
    if pos < 1 or pos != base.num_positions:
        raise EngineError(f"run_from: pos={pos} on a base of {base.num_positions} positions; prefill first and pass its count")
    if logits.ndim != 1 or len(logits) < base.vocab_bound:
        raise EngineError(f"run_from: logits of shape {logits.shape}; give one row of at least {base.vocab_bound} numbers")
    if head is not None and options.choose is not None:
        raise EngineError(f"run_from: head {head.name} beside options.choose; drafts are verified greedily, pass head=None")
    if head is not None and head.needs_hidden and base.last_hidden is None:
        raise EngineError(f"run_from: head {head.name} needs hidden rows and the base keeps none; use a base that does")
    started = clock()
    try:
        _Reply(base, head, pos, logits, options, stats).decode()
    finally:
        stats.decode_seconds += clock() - started
    return stats


def _refuse_no_vocabulary(base: Base) -> None:
    if base.vocab_bound < 1:
        raise EngineError(f"base: vocab_bound={base.vocab_bound} leaves no token to choose; load a model with a vocabulary")


def _forward(base: Base, ids: Sequence[int], num_committed: int) -> Rows:
    """Run one pass; if it fails, cut what it left behind, so that the base holds its first `num_committed` positions."""
    try:
        return base.forward(ids)
    except BaseException:
        base.truncate(num_committed)
        raise


class _Reply:
    """The state of one reply between two turns: the committed position and the logits after it."""

    def __init__(self, base: Base, head: Head | None, position: int, logits: Row, options: Options, stats: Stats) -> None:
        self._base = base
        self._head = head
        self._position = position  # rows of the base that are committed
        self._logits = logits
        self._options = options
        self._stats = stats
        self._fallback = SpecFallback(options.fallback_below, options.fallback_window)

    def decode(self) -> None:
        """Take turns until the reply is over."""
        while self._turn():
            pass

    def _turn(self) -> bool:
        """Deliver the next token and run it, with drafts where the head has some. Returns whether the reply goes on."""
        t1 = self._choose()
        if not self._emit(t1):
            return False
        if self._budget_left < 1:
            if self._options.consume_last:
                self._plain_step(t1)
            return False
        num_drafts = min(self._options.k, self._base.width - 1, self._budget_left)
        if self._head is None or self._fallback.is_off or num_drafts < 1:
            self._plain_step(t1)
            return True
        if self._head.needs_hidden:
            return self._two_pass_turn(self._head, t1, num_drafts)
        return self._one_pass_turn(self._head, t1, num_drafts)

    def _one_pass_turn(self, head: Head, t1: int, num_drafts: int) -> bool:
        """Verify t1 and the drafts behind it in one pass, or step t1 where nothing was proposed."""
        drafts = self._ask(head, t1, self._position, num_drafts, None)
        if not drafts:
            self._plain_step(t1)
            self._record_silence(head)
            return True
        rows = self._pass([t1, *drafts])
        self._position += 1
        return self._settle(head, t1, drafts, rows)

    def _two_pass_turn(self, head: Head, t1: int, num_drafts: int) -> bool:
        """Step t1, ask the head with its hidden row, and verify what it proposes in a second pass."""
        index = self._position
        row = self._pass([t1])[-1].copy()  # it is read after the verify pass, whose rows may share its buffer
        hidden = self._base.last_hidden
        assert hidden is not None, "refused before the first turn"
        self._stats.plain_steps += 1
        self._position += 1
        drafts = self._ask(head, t1, index, num_drafts, hidden[-1])
        if not drafts:
            self._logits = row
            head.commit_rows([t1])
            self._record_silence(head)
            return True
        rows = self._pass(drafts)
        self._stats.plain_steps -= 1  # the step is part of a round from here on
        return self._settle(head, t1, drafts, [row, *rows])

    def _settle(self, head: Head, t1: int, drafts: list[int], rows: Sequence[Row] | Rows) -> bool:
        """Deliver the drafts that hold and keep their rows. `rows[i]` is the row before draft i, `rows[-1]` after the last.

        t1 is delivered, run and counted in `position`. Returns whether the reply goes on.
        """
        stats = self._stats
        stats.rounds += 1
        stats.drafted += len(drafts)
        tokens_before = stats.tokens
        goes_on = True
        try:
            for draft in drafts[: self._num_leading_matches(drafts, rows)]:
                goes_on = self._emit(draft) and self._budget_left > 0
                if not goes_on:
                    break
        finally:
            num_accepted = stats.tokens - tokens_before  # an end token is not among them
            self._position += num_accepted
            self._base.truncate(self._position)
            head.commit_rows([t1, *drafts[:num_accepted]])
            stats.accepted += num_accepted
            stats.per_round.append((tuple(drafts), num_accepted))
        if goes_on:
            self._logits = rows[num_accepted]
            self._record(num_accepted + 1)
        return goes_on

    def _num_leading_matches(self, drafts: list[int], rows: Sequence[Row] | Rows) -> int:
        for index, draft in enumerate(drafts):
            if draft != int(bounded_argmax(rows[index], self._base.vocab_bound)):
                return index
        return len(drafts)

    def _choose(self) -> int:
        if self._options.choose is not None:
            return self._options.choose(self._logits)
        return int(bounded_argmax(self._logits, self._base.vocab_bound))

    @property
    def _budget_left(self) -> int:
        return self._options.max_tokens - self._stats.tokens

    def _emit(self, token: int) -> bool:
        """Deliver one token and count it unless it is the end token of the reply. Returns whether the reply goes on."""
        goes_on = self._options.deliver(token)
        if goes_on or token not in self._options.end_tokens:
            self._stats.tokens += 1
        self._stats.ended = not goes_on
        return goes_on

    def _ask(self, head: Head, t1: int, index: int, num_drafts: int, hidden: Row | None) -> list[int]:
        drafts = head.propose(t1, index, num_drafts, hidden)
        assert len(drafts) <= num_drafts, f"head {head.name} proposed {len(drafts)} tokens where {num_drafts} were asked"
        self._stats.num_asked += 1
        self._stats.last_word = head.last_word
        return drafts

    def _pass(self, ids: Sequence[int]) -> Rows:
        rows = _forward(self._base, ids, self._position)
        self._stats.passes += 1
        return rows

    def _plain_step(self, t1: int) -> None:
        self._logits = self._pass([t1])[-1]
        self._stats.plain_steps += 1
        self._position += 1
        if self._head is not None:
            self._head.commit_rows([t1])

    def _record(self, num_emitted_tokens: int) -> None:
        self._fallback.record(num_emitted_tokens)
        self._stats.fell_back_at = self._fallback.fell_back_at

    def _record_silence(self, head: Head) -> None:
        if head.pays:
            self._record(1)
