"""The path that a reply must take under prompt lookup, step by step: a plain scan over the stream.

It is written from the rules alone (a suffix of 3, else 2, else 1 tokens; the latest earlier occurrence), so that a common
mistake with an engine is unlikely. It does not know any model: the reply is given.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.oracle.loop import Asked, Proposal, Rules, Said, Trace, walked

LONGEST_SUFFIX = 3


def propose(stream: Sequence[int], limit: int) -> tuple[int, ...]:
    """Return at most `limit` tokens that followed the latest earlier occurrence of the stream's longest known suffix.

    Suffixes of 3, then 2, then 1 tokens are looked for; an occurrence may overlap the suffix but not be it, and the copy stops
    at the end of the stream. () = no match.
    """
    for size in range(LONGEST_SUFFIX, 0, -1):
        suffix = tuple(stream[-size:])
        for start in range(len(stream) - size - 1, -1, -1):
            if tuple(stream[start : start + size]) == suffix:
                return tuple(stream[start + size : start + size + limit])
    return ()


def trace(prompt: Sequence[int], said: Said, rules: Rules) -> Trace:
    """Return the path that `said` takes after `prompt` under prompt lookup."""

    def head(asked: Asked) -> Proposal:
        return Proposal(propose([*prompt, *said.ids[: asked.num_emitted]], asked.room))

    return walked(said, rules, head)
