"""The rules of the decoding loop as a walk over a reply that is known: where drafts are asked for, what is accepted of them,
when speculation is given up.

It is written from the rules alone and does not know what drafts: a walk says where it stands and is told what was proposed.
With no drafts allowed (k = 0) it is the plain loop's path.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Said:
    """A reply that is known: what the base says after a prompt, and why it ends there."""

    ids: tuple[int, ...]  # the counted tokens
    budget: int  # tokens allowed, context limit included
    end_token: int | None = None  # the uncounted token that ended it, if one did
    stopped: bool = False  # the last of `ids` completed a stop sequence


@dataclass(frozen=True, slots=True)
class Rules:
    """How an engine walks: drafts a round, rows a pass, and when it gives up."""

    k: int
    width: int = 16
    fallback_below: float = 0.0  # tokens a round; 0 = no rule
    fallback_window: int = 3  # rounds
    consume_last: bool = False  # the token that spends the budget is run through the model
    reserve: int = 0  # tokens of the budget that no draft may take: the base's own behind a draft


@dataclass(frozen=True, slots=True)
class Asked:
    """Where a walk stands when it asks for drafts."""

    num_emitted: int  # tokens of the reply that are delivered; the last of them is the one that drafts are to follow
    room: int  # how many drafts may be proposed


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a head answers: drafts, or silence; and whether asking cost a forward of its own."""

    drafts: tuple[int, ...] = ()
    is_paid: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One pass that ran a delivered token: a round where something was drafted, else a plain step."""

    index: int  # of the pass's first token (t1) in the reply
    asked: bool  # whether the head was asked for drafts
    drafts: tuple[int, ...] = ()
    accepted: int = 0  # drafts delivered and counted


@dataclass(frozen=True, slots=True)
class Trace:
    """The whole path of one reply."""

    steps: tuple[Step, ...]
    last: int  # 1 if the last counted token was not run through the model, else 0
    fallback: int | None  # records made when the fallback rule threw

    @property
    def rounds(self) -> tuple[Step, ...]:
        """The verify rounds, in order."""
        return tuple(step for step in self.steps if step.drafts)

    @property
    def num_plain(self) -> int:
        """Passes that verified nothing."""
        return sum(not step.drafts for step in self.steps)

    @property
    def num_drafted(self) -> int:
        """All ids proposed."""
        return sum(len(step.drafts) for step in self.steps)

    @property
    def num_accepted(self) -> int:
        """All drafts delivered and counted."""
        return sum(step.accepted for step in self.steps)

    @property
    def was_asked(self) -> bool:
        """Whether the head was asked at all."""
        return any(step.asked for step in self.steps)


Walk = Generator[Asked, Proposal, Trace]
Head = Callable[[Asked], Proposal]


@dataclass(slots=True)
class _Fallback:
    """The rule that gives up: the mean of the last `window` records under `below`."""

    below: float
    window: int
    records: list[int] = field(default_factory=list)
    thrown_at: int | None = None

    def record(self, num_emitted: int) -> None:
        self.records.append(num_emitted)
        if len(self.records) >= self.window and sum(self.records[-self.window :]) / self.window < self.below:
            self.thrown_at = len(self.records)


def walk(said: Said, rules: Rules) -> Walk:
    """Walk the path that `said` takes: yield each place where the head is asked, and return the whole path at the end.

    Each turn delivers one token of the base's own choice; where the reply goes on, one pass runs it, with as many drafts behind
    it as k, the width and the budget allow.
    """
    steps: list[Step] = []
    fallback = _Fallback(rules.fallback_below, rules.fallback_window)
    coming = (*said.ids, *(() if said.end_token is None else (said.end_token,)))
    emitted = 0
    while emitted < len(said.ids):
        index, emitted = emitted, emitted + 1
        if emitted == len(coming):  # completes the stop, or spends the budget
            if rules.consume_last and not said.stopped:
                return Trace((*steps, Step(index, asked=False)), 0, fallback.thrown_at)
            return Trace(tuple(steps), 1, fallback.thrown_at)
        room = min(rules.k, rules.width - 1, said.budget - emitted - rules.reserve)
        asked = room > 0 and fallback.thrown_at is None
        proposal = (yield Asked(emitted, room)) if asked else Proposal()
        drafts = proposal.drafts[:room] if asked else ()
        matching = num_equal(drafts, coming[emitted:])
        accepted = min(matching, len(said.ids) - emitted)  # an end token is in no count
        emitted += accepted
        steps.append(Step(index, asked, drafts, accepted))
        is_over = matching > accepted or emitted == len(coming)
        if is_over:
            break
        if drafts or proposal.is_paid:
            fallback.record(accepted + 1)
    return Trace(tuple(steps), 0, fallback.thrown_at)


def walked(said: Said, rules: Rules, head: Head) -> Trace:
    """Return the whole path that `said` takes under one head."""
    turns = walk(said, rules)
    try:
        asked = next(turns)
        while True:
            asked = turns.send(head(asked))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what a Walk returns is its Trace


def num_equal(drafts: Sequence[int], coming: Sequence[int]) -> int:
    """Return how many leading drafts are what comes."""
    for count, (draft, token) in enumerate(zip(drafts, coming, strict=False)):
        if draft != token:
            return count
    return min(len(drafts), len(coming))
