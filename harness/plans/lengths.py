"""What the law on accept lengths is asked: replies on which every length must occur, on lookup and on a pack, each at two K.

What lookup does on a prescribed reply is known here, so its prompts are chosen by what they show; what a pack does is told by the
oracle when the run is judged, so packs are asked every stream, and replies cut at several places.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.oracle.shapes import Edge, required, shapes
from harness.plans.build import Asked, Slice, ask
from harness.plans.requests import completion
from harness.plans.starts import DRAFT, LOOKUP, PLAIN, draft, lookup
from harness.plans.streams import continued, lookup_trace, stopped_trace
from harness.records.fixture import Fixture, Stream
from harness.records.plan import Request, Tier
from harness.records.recording import Round

CHECK = "accept-lengths"
WHOLE_REPLY = 24  # tokens that a stream prescribes
SMALL_K, LARGE_K = 4, 7
STOP_SIZE = 2
CUTS = (3, 5, 8)  # tokens of a pack's reply: inside a first or a second round


def accept_lengths(fixture: Fixture, tier: Tier) -> Iterator[Asked]:
    """Whole replies, cut ones and stopped ones, on lookup and on the pack whose drafts land partly."""
    lookups = [(LOOKUP, SMALL_K), (lookup("k-7", LARGE_K), LARGE_K)]
    packs = [DRAFT, draft("k-4", draft_k=SMALL_K)]
    if tier is Tier.MUTATION:
        lookups, packs = [(LOOKUP, SMALL_K)], [DRAFT]
    for start, k in lookups:
        for request in _showing(fixture, k):
            yield from ask(request, PLAIN, start)
    for request in _of_pack(fixture, tier):
        yield from ask(request, PLAIN, *packs)


def _of_pack(fixture: Fixture, tier: Tier) -> Iterator[Request]:
    yield from (completion(stream, WHOLE_REPLY, CHECK) for stream in fixture.streams)
    for stream in fixture.streams if tier is Tier.DEEP else fixture.of_role("main")[:2]:
        every = range(STOP_SIZE, WHOLE_REPLY)
        yield from (completion(stream, cut, CHECK) for cut in (every if tier is Tier.DEEP else CUTS))
        for cut in every if tier is Tier.DEEP else CUTS[:-1]:
            yield completion(stream, WHOLE_REPLY, CHECK, stop=[stream.reply[cut - STOP_SIZE : cut]])


def _showing(fixture: Fixture, k: int) -> Iterator[Request]:
    """Yield requests that show, all together, what must be shown under lookup of `k`, each something that those before it do not."""
    missing = set(required(k))
    for stream, cut, edge in _candidates(fixture):
        if not missing:
            return
        shown = missing & _shown(stream, k, cut, edge)
        if shown:
            missing -= shown
            if edge is Edge.STOP:
                yield completion(stream, len(stream.reply_ids), CHECK, stop=[stream.reply[cut - STOP_SIZE : cut]])
            else:
                yield completion(stream, cut, CHECK)


def _candidates(fixture: Fixture) -> Iterator[tuple[Stream, int, Edge]]:
    """Yield whole replies first, then what is left of them behind each beginning, cut short by the budget and by a stop."""
    for stream in fixture.streams:
        yield stream, len(stream.reply_ids), Edge.BUDGET
    for gone in range(1, WHOLE_REPLY):
        for stream in fixture.streams:
            yield continued(stream, gone), len(stream.reply_ids) - gone, Edge.BUDGET
    for stream in fixture.streams:
        for cut in range(STOP_SIZE, len(stream.reply_ids)):
            if stream.reply.find(stream.reply[cut - STOP_SIZE : cut]) == cut - STOP_SIZE:
                yield stream, cut, Edge.STOP
            yield stream, cut, Edge.BUDGET


def _shown(stream: Stream, k: int, cut: int, edge: Edge) -> frozenset[str]:
    """Return what a lookup reply of `cut` tokens shows: a stop does not cap the last round's drafts, a budget does."""
    if edge is Edge.STOP:
        walk = stopped_trace(stream, k, cut)
    else:
        walk = lookup_trace(Stream(stream.name, stream.role, stream.prompt_ids, stream.reply_ids[:cut]), k)
    lands = walk.last == 0 and walk.num_accepted > 0
    return shapes([Round(step.drafts, step.accepted) for step in walk.rounds], k, edge if lands else Edge.NONE)


SLICES: dict[str, Slice] = {CHECK: accept_lengths}
