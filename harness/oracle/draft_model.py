"""What a drafter proposes that is a model of its own, as a black box: what that model says by itself, greedily, after the same tokens.

It is written for drafters that see the tokens alone. What the model says is asked of it beforehand, served without a target; where it was
not asked, nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.records.expectation import Ids

ALONE = "draft-alone"  # the start that serves a draft model by itself

Spoken = Mapping[Ids, Ids]  # what the draft model says after each sequence that it was asked for


class NotAskedError(LookupError):
    """The draft model was not asked for what it says here."""


def propose(spoken: Spoken, stream: Ids, limit: int) -> Ids:
    """Return at most `limit` tokens that the draft model says after a stream. Raises NotAskedError."""
    said = spoken.get(stream)
    if said is None or len(said) < limit:
        raise NotAskedError(f"the draft model was not asked for {limit} tokens after {len(stream)}")
    return said[:limit]
