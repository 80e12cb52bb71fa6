"""Faults of what a whole reply says: its tokens, how it ended, and whose reply it is."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.mutation.relay.fault import OK, Asked, Fault, Json, ReplyFault
from harness.mutation.relay.said import END, LENGTH, WORD, Said
from harness.mutation.relay.speech import Record, Speech


def block_edge(said: Said, record: Record | None) -> int:
    """Return the place behind the first accepted block, as far as the rounds tell; else the middle of the reply."""
    ids = said.ids or ()
    for drafts, num_accepted in (record or {}).get("per_round") or ():
        block = tuple(drafts[:num_accepted])
        for place in range(len(ids) - len(block) + 1) if block else ():
            if ids[place : place + len(block)] == block:
                return place + len(block)
    return max(1, said.num_tokens // 2)


def spliced(said: Said, place: int, *, removed: int = 0, added: int = 0) -> Said:
    """Return a reply that goes on from `place` without the tokens behind it, or with the one before it again."""
    ids, text = said.ids, said.text
    if ids is not None:
        ids = (*ids[:place], *ids[place - 1 : place] * added, *ids[place + removed :])
    return replace(said, ids=ids, text=text[:place] + text[place - 1 : place] * added + text[place + removed :])


def cut(said: Said, num_tokens: int) -> Said:
    """Return the first tokens of a reply."""
    return replace(said, ids=None if said.ids is None else said.ids[:num_tokens], text=said.text[:num_tokens])


@dataclass(slots=True)
class DoubledToken(ReplyFault):
    """The last token of a block is delivered twice, within the budget; or that at a place counted from the end."""

    from_end: int = 0  # 0 = at the edge of the first accepted block

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """See ReplyFault."""
        place = said.num_tokens - self.from_end + 1 if self.from_end else block_edge(said, record)
        return cut(spliced(said, place, added=1), said.num_tokens)


@dataclass(slots=True)
class DroppedToken(ReplyFault):
    """The token behind a block is lost."""

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """See ReplyFault."""
        return spliced(said, min(block_edge(said, record), said.num_tokens - 1), removed=1)


@dataclass(slots=True)
class ExtraToken(ReplyFault):
    """One token more is delivered than what ended the reply allows."""

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """See ReplyFault."""
        ids = None if said.ids is None else (*said.ids, *said.ids[-1:])
        shown = said.stop[-1:] if isinstance(said.stop, str) else said.text[-1:]
        return replace(said, ids=ids, text=said.text + shown)


@dataclass(slots=True)
class RepeatedToken(ReplyFault):
    """In the place of the last token stands one that the reply had before: nothing is moved."""

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """See ReplyFault."""
        ids = None if said.ids is None else (*said.ids[:-1], said.ids[0])
        return replace(said, ids=ids, text=said.text[:-1] + said.text[:1])


@dataclass(slots=True)
class OtherFinish(ReplyFault):
    """Another end is named: the budget's in place of a stop's, whose text then stays; or a stop's in place of the budget's."""

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """See ReplyFault."""
        if said.finish == LENGTH:
            return replace(said, finish=WORD, stop=None)
        shown = said.stop if isinstance(said.stop, str) else ""
        return replace(said, finish=LENGTH, stop=None, text=said.text + shown)


@dataclass(slots=True)
class NoStopReason(ReplyFault):
    """Which stop or end token ended the reply is not told."""

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """See ReplyFault."""
        return replace(said, finish=WORD, stop=None) if said.finish in (WORD, END) else said


@dataclass(slots=True)
class LostText(ReplyFault):
    """The last character is in no text, though its token is counted."""

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """See ReplyFault."""
        return replace(said, text=said.text[:-1])


@dataclass(slots=True)
class LostTail(ReplyFault):
    """What was held back as the beginning of a stop is not shown when the budget ends first."""

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """See ReplyFault."""
        return replace(said, text=said.text[: len(said.text) - held_back(said.text, self.speech.stops(asked.body))])


def held_back(text: str, stops: Sequence[str]) -> int:
    """Return how many characters at the end of a text could become a stop."""
    lengths = (size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
    return max(lengths, default=0)


@dataclass(slots=True)
class WrongUsage(Fault):
    """The length of the prompt is one token too many."""

    reads_answers = True

    def answer(self, asked: Asked, status: int, body: Json) -> tuple[int, Json] | None:
        """See Fault."""
        said = self.speech.said(body) if status == OK else None
        if said is None or not self.when.holds_of(self.speech, asked, said, self.speech.record(body)):
            return None
        body = copy.deepcopy(body)
        holder: Any = body
        *path, last = self.speech.prompt_tokens_key()
        for key in path:
            holder = holder[key]
        holder[last] += 1
        return status, body


@dataclass(slots=True)
class StaleReply(Fault):
    """A request is answered with the reply of the one before it."""

    former: Json | None = field(init=False, default=None)

    reads_answers = True

    def answer(self, asked: Asked, status: int, body: Json) -> tuple[int, Json] | None:
        """See Fault."""
        if status != OK or self.speech.said(body) is None:
            return None
        with self.lock:
            former, self.former = self.former, body
        if former is None or not self.when.holds(self.speech, asked):
            return None
        return status, {**former, "id": body["id"]} if "id" in body else former


@dataclass(slots=True)
class NeighboursToken(ReplyFault):
    """A reply begins with the first token of another that was finished while it was under way."""

    finished: list[Said] = field(init=False, default_factory=list)
    begun: dict[int, int] = field(init=False, default_factory=dict)  # number of a request -> how many were finished before it

    def request(self, asked: Asked) -> Json | None:
        """Remember when it began."""
        with self.lock:
            self.begun[asked.number] = len(self.finished)
        return None

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """See ReplyFault."""
        with self.lock:
            others = self.finished[self.begun[asked.number] :]
            self.finished.append(said)
        return headed(said, others[-1]) if others else said


@dataclass(slots=True)
class LeftBehind(ReplyFault):
    """What a client that left was not shown comes first in the next reply."""

    rest: str = field(init=False, default="")

    def left(self, asked: Asked, shown: str) -> None:
        """Remember the end of what it was shown."""
        with self.lock:
            self.rest = shown[-1:]

    def change(self, said: Said, asked: Asked, record: Record | None) -> Said:
        """See ReplyFault."""
        with self.lock:
            rest, self.rest = self.rest, ""
        if not rest:
            return said
        return replace(said, text=cut(replace(said, text=rest + said.text), said.num_tokens).text)


def headed(said: Said, other: Said) -> Said:
    """Return a reply of the same length that begins with another one's first token."""
    ids = said.ids
    if ids is not None and other.ids is not None:
        ids = (*other.ids[:1], *ids)
    return cut(replace(said, ids=ids, text=other.text[:1] + said.text), said.num_tokens)


@dataclass(slots=True)
class WrongScores(Fault):
    """Logprobs are those of the row before, all zero, or not there."""

    how: str = "row-before"  # or "zero", "missing"

    reads_answers = True

    def answer(self, asked: Asked, status: int, body: Json) -> tuple[int, Json] | None:
        """See Fault."""
        scores = self.speech.scores(body) if status == OK else None
        if scores is None or not self.when.holds(self.speech, asked):
            return None
        return status, self.speech.scoring(body, scored(self.speech, scores, self.how))


def scored(speech: Speech, scores: Sequence[Mapping[str, Any]], how: str) -> list[dict[str, Any]] | None:
    """Return the scores of a reply as a fault has them; None: none at all."""
    if how == "missing":
        return None
    if how == "zero":
        return [{**one, speech.logprob: 0.0} for one in scores]
    before = (scores[0], *scores[:-1])
    return [
        {**one, **{name: row[name] for name in speech.of_row if name in row}} for one, row in zip(scores, before, strict=True)
    ]


@dataclass(slots=True)
class BadBodyServed(Fault):
    """What must be refused is answered with 200 and an empty reply."""

    reads_answers = True

    def answer(self, asked: Asked, status: int, body: Json) -> tuple[int, Json] | None:
        """See Fault."""
        if not 400 <= status < 500 or not self.when.holds(self.speech, asked):
            return None
        return OK, self.speech.empty(asked.body)
