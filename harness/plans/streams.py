"""Prompts derived from a fixture's streams, and the choice of those on which a law can fail.

A stream continued from the middle of its own reply stays on the prescribed path, in another phase of the rounds: one stream
gives many. What prompt lookup will do on them is the oracle's to say; a check never relies on it, it reads what happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.errors import UsageError
from harness.oracle.lookup import trace
from harness.oracle.loop import Rules, Said, Trace
from harness.records.fixture import Fixture, Stream


@dataclass(frozen=True, slots=True)
class EndToken:
    """A token that a stream produces, and prompts after which it comes at each place of a lookup block.

    `prompts[0]` ends where the base's own choice (t1) is the token, `prompts[j]` where the j-th draft is.
    """

    token: int
    prompts: tuple[Stream, ...]


def continued(stream: Stream, num_tokens: int) -> Stream:
    """Return the stream whose prompt holds the first `num_tokens` of its reply already; 0 returns the stream itself."""
    if num_tokens == 0:
        return stream
    return Stream(
        name=f"{stream.name}+{num_tokens}",
        role=stream.role,
        prompt_ids=stream.prompt_ids + stream.reply_ids[:num_tokens],
        reply_ids=stream.reply_ids[num_tokens:],
    )


def joined(name: str, streams: Iterable[Stream]) -> Stream:
    """Return one long prompt of all the streams' prompts and replies; no reply is prescribed for it."""
    ids = tuple(token for stream in streams for token in (*stream.prompt_ids, *stream.reply_ids))
    return Stream(name=name, role="", prompt_ids=ids, reply_ids=())


def lookup_trace(stream: Stream, k: int, budget: int | None = None) -> Trace:
    """Return the path of a stream's prescribed reply under prompt lookup, as far as it is prescribed."""
    return trace(stream.prompt_ids, Said(stream.reply_ids, budget or len(stream.reply_ids)), Rules(k=k))


def stopped_trace(stream: Stream, k: int, num_tokens: int) -> Trace:
    """Return the path under prompt lookup of a reply that a stop ends with its token `num_tokens`."""
    return trace(stream.prompt_ids, Said(stream.reply_ids[:num_tokens], len(stream.reply_ids), stopped=True), Rules(k=k))


def is_cut_in_block(stream: Stream, k: int, num_tokens: int) -> bool:
    """Whether a lookup reply of exactly `num_tokens` ends on an accepted draft."""
    walk = trace(stream.prompt_ids, Said(stream.reply_ids[:num_tokens], num_tokens), Rules(k=k))
    return walk.last == 0 and walk.num_accepted > 0


def widest_rounds(streams: Iterable[Stream], k: int, budget: int, count: int) -> tuple[Stream, ...]:
    """Return the `count` streams with most accepted drafts in rounds of `k` drafts at this budget, best first.

    Raises UsageError where fewer have such a round.
    """
    worth = {stream: _num_accepted_in_full_rounds(stream, k, budget) for stream in streams}
    found = sorted((stream for stream in worth if worth[stream]), key=lambda stream: -worth[stream])[:count]
    if len(found) < count:
        raise UsageError(
            f"recipe: {len(found)} streams land drafts in a lookup round of {k}; {count} are needed, add hit streams"
        )
    return tuple(found)


def end_token(fixture: Fixture, k: int) -> EndToken:
    """Return a token of a stream that ends replies at t1 and at each of the `k` drafts of a lookup block.

    Raises UsageError where the recipe has none.
    """
    return next(end_tokens(fixture, k))


def end_tokens(fixture: Fixture, k: int) -> Iterator[EndToken]:
    """Yield such tokens, the best stream's first. Raises UsageError where the recipe has none."""
    num_found = 0
    for stream in (*fixture.of_role("repeat"), *fixture.of_role("hit"), *fixture.of_role("burst"), *fixture.of_role("main")):
        for token in dict.fromkeys(stream.reply_ids):
            prompts = _prompts_by_place(stream, token, k)
            if len(prompts) == k + 1:
                num_found += 1
                yield EndToken(token, tuple(prompts[place] for place in range(k + 1)))
    if not num_found:
        raise UsageError(f"recipe: no token of a stream falls on t1 and on each of {k} drafts; add a stream of kind repeat")


def end_place(stream: Stream, token: int, k: int) -> int | None:
    """Return the place at which `token` ends a lookup reply: 0 = t1, j = the j-th draft; None where it never comes."""
    if token not in stream.reply_ids:
        return None
    num_tokens = stream.reply_ids.index(token)
    said = Said(stream.reply_ids[:num_tokens], len(stream.reply_ids), end_token=token)
    steps = trace(stream.prompt_ids, said, Rules(k=k)).steps
    if not steps:
        return 0
    final = steps[-1]
    is_draft = final.drafts[final.accepted : final.accepted + 1] == (token,) and final.index + final.accepted + 1 == num_tokens
    return final.accepted + 1 if is_draft else 0


def _prompts_by_place(stream: Stream, token: int, k: int) -> dict[int, Stream]:
    prompts: dict[int, Stream] = {}
    for num_tokens in range(len(stream.reply_ids)):
        source = continued(stream, num_tokens)
        place = end_place(source, token, k)
        if place is not None:
            prompts.setdefault(place, source)
    return prompts


def _num_accepted_in_full_rounds(stream: Stream, k: int, budget: int) -> int:
    return sum(step.accepted for step in lookup_trace(stream, k, budget).rounds if len(step.drafts) == k)
