"""Replies that differ from their reference's: which request, on which start, and from which token on. It judges nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.records.plan import Plan, Request, Start
from harness.records.recording import Answer, Declared, Recording

SERVED = 200
FOLLOWED = "near-tie"  # how the ids of starts begin that are made to find out why two replies differ
MOST_FOLLOWED = 24  # pairs: of more than these something else is wrong


@dataclass(frozen=True, slots=True)
class Compared:
    """A request that a start and its reference were both asked and both served, with ids."""

    start: Start
    request: Request
    answer: Answer
    want: tuple[int, ...]  # the reference's ids
    got: tuple[int, ...]

    @property
    def index(self) -> int | None:
        """The first index at which the replies differ, the shorter one's length if it is a beginning of the other; None if equal."""
        if self.want == self.got:
            return None
        pairs = zip(self.want, self.got, strict=False)
        return next((at for at, (want, got) in enumerate(pairs) if want != got), min(len(self.want), len(self.got)))

    @property
    def is_cut(self) -> bool:
        """Whether one reply is a proper beginning of the other: no token was chosen otherwise."""
        return self.index == min(len(self.want), len(self.got))


def compared(plan: Plan, recordings: Sequence[Recording], declared: Declared) -> Iterator[Compared]:
    """Yield what can be compared, in the plan's order.

    Left out are starts that only find out why others differ, and sampled replies of arms that take other random numbers.
    """
    by_start = {recording.start.id: {one.request_id: one for one in recording.answers} for recording in recordings}
    for start in plan.starts:
        if start.reference is None or start.id.startswith(FOLLOWED):
            continue
        samples_alike = declared.facts_of(start).samples_alike
        for request in start.requests if samples_alike else filter(lambda one: one.is_greedy, start.requests):
            answer = by_start.get(start.id, {}).get(request.id)
            want, got = ids_of(by_start.get(start.reference, {}).get(request.id)), ids_of(answer)
            if answer is not None and want is not None and got is not None:
                yield Compared(start, request, answer, want, got)


def followed(plan: Plan, recordings: Sequence[Recording], declared: Declared) -> list[Compared]:
    """Return the pairs that starts of their own find out about, in the order of those starts' numbers."""
    return [one for one in compared(plan, recordings, declared) if one.index is not None and not one.is_cut][:MOST_FOLLOWED]


def ids_of(answer: Answer | None) -> tuple[int, ...] | None:
    """Return the ids of a served answer; None where there are none."""
    is_served = answer is not None and answer.status == SERVED and answer.reply is not None and not answer.failure
    return answer.reply.ids if answer is not None and answer.reply is not None and is_served else None
