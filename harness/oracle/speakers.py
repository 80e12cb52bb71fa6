"""Models and packs that remember what they said: each state of a sequence is computed once, whoever asks for it.

A choice or a block is a function of the sequence up to it, so it is kept under that sequence. Which sequences share a forward is
decided by guesses; a wrong guess costs a forward and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from harness.oracle.arithmetic64 import best, margins
from harness.oracle.dflash_64 import Context, context_of, drafted_rows
from harness.oracle.pack64 import Pack64
from harness.oracle.pick_64 import picked
from harness.oracle.qwen3_64 import Ids, Passed, Qwen3
from harness.records.divergence import Gap, GapSource
from harness.records.expectation import Block, Choice

_MOST_PLACES = 24  # whose blocks are computed together

Prefix = Ids  # a sequence up to and with the token that something follows


def longest(sequences: Sequence[Ids]) -> list[Ids]:
    """Return the sequences that are not the beginning of another one, in order and once each."""
    ordered = sorted(set(sequences))  # what begins with a sequence comes right behind it
    followers = [*ordered[1:], ()][: len(ordered)]
    return [one for one, following in zip(ordered, followers, strict=True) if following[: len(one)] != one]


class Speaker:
    """One model: what it says after a prompt. It is read when something is asked that is not remembered."""

    def __init__(self, read: Callable[[], Qwen3]) -> None:
        self._read = read
        self._guesses: list[Ids] = []
        self._passed: dict[Ids, Passed] = {}
        self._choices: dict[Prefix, Choice] = {}

    @cached_property
    def model(self) -> Qwen3:
        """The model itself. Raises FileFormatError for files that are not as they should be."""
        return self._read()

    @property
    def is_read(self) -> bool:
        """Whether something was asked that was not remembered."""
        return "model" in vars(self)

    def recall(self, prompt: Prefix, choices: Sequence[Choice]) -> None:
        """Take for known what was computed before from the same files."""
        sequence = prompt
        for choice in choices:
            self._choices[sequence] = choice
            sequence = (*sequence, choice.token)

    def guess(self, sequences: Sequence[Ids]) -> None:
        """Take sequences as likely: states along them are computed together."""
        self._guesses = longest([*self._guesses, *sequences])

    def forget_sequences(self) -> None:
        """Drop guesses and what whole sequences gave; choices stay."""
        self._guesses.clear()
        self._passed.clear()

    def passed(self, prefixes: Sequence[Prefix]) -> list[tuple[Ids, Passed]]:
        """Return for each prefix a sequence that begins with it, and what that gave; all that is missing runs together."""
        sequences = [self._guessed(prefix) for prefix in prefixes]
        missing = list(dict.fromkeys(one for one in sequences if one not in self._passed))
        if missing:
            self._passed.update(zip(missing, self.model.forward(missing), strict=True))
        return [(one, self._passed[one]) for one in sequences]

    def say(self, prompts: Sequence[tuple[Prefix, int]]) -> list[tuple[Choice, ...]]:
        """Return for each (prompt, number of tokens) the greedy choices after it."""
        unknown = [prompt for prompt, count in prompts if self._remembered(prompt, count) is None]
        self.passed(unknown)
        return [self._remembered(prompt, count) or self._said(prompt, count) for prompt, count in prompts]

    def gap(self, prefix: Prefix, got: int | None) -> Gap:
        """Return the best two ids after a sequence and how far they are apart; and how far `got`, a row of the head, is behind."""
        ((_, passed),) = self.passed([prefix])
        scores = passed.scores[len(prefix) - 1]
        bounded = scores[: self.model.container.bound].copy()
        first = int(best(bounded))
        lead = float(bounded[first])
        bounded[first] = -np.inf
        second = int(best(bounded))
        behind = None if got is None else lead - float(scores[got])
        return Gap(GapSource.FORWARD, str(first), str(second), lead - float(bounded[second]), behind)

    def _said(self, prompt: Prefix, count: int) -> tuple[Choice, ...]:
        choices: list[Choice] = []
        for _ in range(count):
            prefix = (*prompt, *(choice.token for choice in choices))
            if prefix not in self._choices:
                self._choices[prefix] = self._chosen(prefix)
            choices.append(self._choices[prefix])
        return tuple(choices)

    def _remembered(self, prompt: Prefix, count: int) -> tuple[Choice, ...] | None:
        choices: list[Choice] = []
        for _ in range(count):
            choice = self._choices.get((*prompt, *(one.token for one in choices)))
            if choice is None:
                return None
            choices.append(choice)
        return tuple(choices)

    def _chosen(self, prefix: Prefix) -> Choice:
        ((_, passed),) = self.passed([prefix])
        scores = passed.scores[len(prefix) - 1]
        bounded = scores[: self.model.container.bound]
        token = int(best(bounded))
        is_tie = int(np.count_nonzero(bounded == bounded[token])) > 1
        is_behind_padding = bool(np.any(scores[len(bounded) :] > bounded[token]))
        logprob = -float(np.log(np.sum(np.exp(bounded - bounded[token]))))  # the token's own score is the largest
        return Choice(token, float(margins(bounded)), is_tie, is_behind_padding, logprob)

    def _guessed(self, prefix: Prefix) -> Ids:
        return next((one for one in self._guesses if one[: len(prefix)] == prefix), prefix)


class Drafter:
    """One pack on one model: what it drafts behind a token. It is read when something is asked that is not remembered."""

    def __init__(self, read: Callable[[], Pack64], target: Speaker) -> None:
        self._read = read
        self._target = target
        self._contexts: dict[Ids, Context] = {}
        self._blocks: dict[Prefix, Block] = {}

    @cached_property
    def pack(self) -> Pack64:
        """The pack itself. Raises FileFormatError for files that are not as they should be."""
        return self._read()

    @property
    def is_read(self) -> bool:
        """Whether something was asked that was not remembered."""
        return "pack" in vars(self)

    def recall(self, sequence: Ids, blocks: Mapping[int, Block]) -> None:
        """Take for known what was computed before from the same files: a block behind each place of a sequence."""
        self._blocks.update((sequence[: place + 1], block) for place, block in blocks.items())

    def draft(self, prefixes: Sequence[Prefix]) -> list[Block]:
        """Return the block behind the last token of each prefix."""
        missing = list(dict.fromkeys(prefix for prefix in prefixes if prefix not in self._blocks))
        self._blocks.update(self._drafted(missing))
        return [self._blocks[prefix] for prefix in prefixes]

    def forget_sequences(self) -> None:
        """Drop the contexts of whole sequences; blocks stay."""
        self._contexts.clear()

    def _drafted(self, prefixes: Sequence[Prefix]) -> Iterator[tuple[Prefix, Block]]:
        """Yield each prefix with its block; those of one sequence are drafted together."""
        if not prefixes:
            return
        container = self._target.model.container
        places: dict[Ids, list[int]] = {}
        for prefix, (sequence, passed) in zip(prefixes, self._target.passed(prefixes), strict=True):
            places.setdefault(sequence, []).append(len(prefix) - 1)
            if sequence not in self._contexts:
                self._contexts[sequence] = context_of(self.pack, passed.streams)
        for sequence, its_places in places.items():
            for some in _parts(sorted(its_places)):
                rows = drafted_rows(self.pack, container.embedding, self._contexts[sequence], sequence, some)
                anchors = [sequence[place] for place in some]
                blocks = picked(self.pack, self._target.model.readout, container.bound, rows, anchors)
                yield from zip((sequence[: place + 1] for place in some), blocks, strict=True)


def _parts(places: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield neighbours together, few enough that early ones are not computed beside the context of late ones."""
    for start in range(0, len(places), _MOST_PLACES):
        yield places[start : start + _MOST_PLACES]
